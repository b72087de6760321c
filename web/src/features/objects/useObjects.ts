/** The rows of a list (E4), fetched in windows of 200 as they come into view. Rows do not jump when objects change elsewhere. */
import { useCallback, useMemo, useRef, useState } from 'react';
import { keepPreviousData, useQueries } from '@tanstack/react-query';
import { get } from '../../api/client';
import type { ObjectList, ObjectRow } from '../../api/types';

/** Rows of one window; the server gives at most 500. */
export const WINDOW = 200;
/** Windows that are fetched at once. A jump in a long list needs two. */
const MOST_WINDOWS = 4;

export interface Objects {
  total: number;
  matched: number;
  facets: ObjectList['facets'];
  revision: number;
  /** When the newest answer came. */
  at: number;
  row: (index: number) => ObjectRow | undefined;
  /** Says which rows are in view. */
  ensure: (first: number, last: number) => void;
  /** Rows that changed elsewhere and are held back. */
  pending: number;
  accept: () => void;
  error: unknown;
  loading: boolean;
  /** The rows are of an older query. */
  stale: boolean;
  refetch: () => void;
}

/** The rows of one window as they are shown, and when they came. */
interface Held {
  list: ObjectRow[];
  matched: number;
  at: number;
}

export function useObjects(kind: string, q: string, sort: string, poll: number | false): Objects {
  const [view, setView] = useState<{ of: string; windows: number[] }>({ of: '', windows: [0] });
  const of = `${kind}|${q}|${sort}`;
  const windows = useMemo(() => (view.of === of ? view.windows : [0]), [view, of]);
  const held = useRef(new Map<string, Held>());
  // Rows that an earlier visit left in the cache are replaced at once; only what this visit has shown is held.
  const since = useRef(Date.now());
  const [, redraw] = useState(0);

  const results = useQueries({
    queries: windows.map((window) => ({
      queryKey: ['rows', kind, { q, sort, window }],
      queryFn: ({ signal }: { signal: AbortSignal }) => get<ObjectList>(`weir/objects/${kind}`, { q, sort, offset: window * WINDOW, limit: WINDOW }, signal),
      refetchInterval: poll,
      staleTime: 2_000,
      placeholderData: keepPreviousData,
    })),
  });
  const first = results[windows.indexOf(0)] ?? results[0];
  const fresh = results.every((result) => !result.isPlaceholderData);
  let pending = 0;
  results.forEach((result, index) => {
    if (!result.data || result.isPlaceholderData) return;
    const name = `${of}|${windows[index]}`;
    const old = held.current.get(name);
    const { list, matched } = result.data;
    const shown = { list, matched, at: result.dataUpdatedAt };
    if (old === undefined || old.at < since.current || old.list.length === 0 || sameIds(old.list, list)) held.current.set(name, shown);
    else pending += countDifferent(old.list, list);
  });

  const row = useCallback((index: number): ObjectRow | undefined => {
    const window = Math.floor(index / WINDOW);
    const found = held.current.get(`${of}|${window}`);
    if (found) return found.list[index - window * WINDOW];
    const at = windows.indexOf(window);
    return results[at]?.data?.list[index - window * WINDOW];
  }, [of, windows, results]);
  const ensure = useCallback((from: number, to: number) => {
    const needed = new Set([0]);
    for (let window = Math.floor(from / WINDOW); window <= Math.floor(to / WINDOW) && needed.size < MOST_WINDOWS; window += 1) needed.add(window);
    setView((old) => {
      const next = [...needed].sort((a, b) => a - b);
      const known = old.of === of ? old.windows : [0];
      return next.length === known.length && next.every((each, at) => each === known[at]) && old.of === of ? old : { of, windows: next };
    });
  }, [of]);
  const accept = useCallback(() => {
    held.current.clear();
    redraw((n) => n + 1);
  }, []);
  const data = first?.data;
  return {
    total: data?.total ?? 0,
    matched: held.current.get(`${of}|0`)?.matched ?? data?.matched ?? 0,
    facets: data?.facets ?? {},
    revision: data?.revision ?? 0,
    at: first?.dataUpdatedAt ?? 0,
    row,
    ensure,
    pending,
    accept,
    error: first?.error ?? null,
    loading: data === undefined && first?.error == null,
    stale: !fresh,
    refetch: () => results.forEach((result) => void result.refetch()),
  };
}

function sameIds(a: readonly ObjectRow[], b: readonly ObjectRow[]): boolean {
  return a.length === b.length && a.every((row, index) => row.id === b[index]?.id);
}

function countDifferent(a: readonly ObjectRow[], b: readonly ObjectRow[]): number {
  const known = new Map(a.map((row) => [row.id, row.updated_ms]));
  const changed = b.filter((row) => known.get(row.id) !== row.updated_ms).length;
  const ids = new Set(b.map((row) => row.id));
  const gone = a.filter((row) => !ids.has(row.id)).length;
  return Math.max(1, changed + (b.length < a.length ? gone : 0));
}
