/** A value as JSON text, for places without a form of their own. Writes only what parses. */
import { useEffect, useState } from 'react';
import type { FieldProps } from '@rjsf/utils';
import { Textarea } from '@mantine/core';
import { equal, type Json } from '../json';
import { parseJson } from '../jsonText';
import { useField } from './props';
import { Plain } from './scalars';

export function JsonField(props: FieldProps) {
  const { value, emit, aria, readOnly, id } = useField(props);
  if (readOnly) return <Plain value={value} id={id} />;
  return <JsonInput aria={aria} value={value} emit={emit} />;
}

export function JsonInput({ value, emit, aria, rows = 2 }: { value: Json | undefined; emit: (value: Json | undefined) => void; aria: object; rows?: number }) {
  const [text, setText] = useState(() => write(value));
  const [mistake, setMistake] = useState<string | null>(null);
  useEffect(() => {
    setText((old) => {
      const read = old.trim() === '' ? undefined : parseJson(old).document;
      return equal(read, value) ? old : write(value);
    });
    setMistake(null);
  }, [value]);
  return (
    <>
      <Textarea {...aria} className="w-input w-wide" value={text} autosize minRows={rows} maxRows={16} spellCheck={false} classNames={{ input: 'w-mono' }}
        onChange={(event) => {
          const next = event.currentTarget.value;
          setText(next);
          if (next.trim() === '') {
            setMistake(null);
            emit(undefined);
            return;
          }
          const read = parseJson(next);
          setMistake(read.error ?? null);
          if (read.document !== undefined) emit(read.document);
        }} />
      {mistake ? <p className="w-mistake" role="status">{mistake}</p> : null}
    </>
  );
}

function write(value: Json | undefined): string {
  return value === undefined ? '' : JSON.stringify(value, null, 2);
}
