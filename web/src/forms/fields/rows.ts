/** Rows of a table that may be unfinished while the document holds the finished ones. */
import { useEffect, useState } from 'react';
import { equal, type Json } from '../json';

/** Keeps rows as typed; takes the document's rows when those that are finished say something else. */
export function useRows<T>(source: T[], write: (rows: T[]) => void, read: (rows: T[]) => unknown): [T[], (rows: T[]) => void] {
  const [rows, setRows] = useState(source);
  const given = JSON.stringify(read(source));
  useEffect(() => {
    setRows((old) => (equal(JSON.parse(JSON.stringify(read(old))) as Json, JSON.parse(given) as Json) ? old : source));
    // The rows change when the text of the document's rows does.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [given]);
  return [rows, (next) => {
    setRows(next);
    write(next);
  }];
}
