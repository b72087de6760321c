/** A value as JSON text, for places without a form of their own. Writes only texts that parse; others are kept. */
import { useEffect, useState } from 'react';
import type { FieldProps } from '@rjsf/utils';
import { Textarea } from '@mantine/core';
import { writeExact } from '../../api/exact';
import { equal, type Json } from '../json';
import { useFormEnv } from '../env';
import { parseJson } from '../jsonText';
import { keepTyped, readTyped, useTyped } from '../typed';
import { useField } from './props';
import { Plain } from './scalars';

export function JsonField(props: FieldProps) {
  const { value, emit, aria, readOnly, id, pointer } = useField(props);
  if (readOnly) return <Plain value={value} id={id} />;
  return <JsonInput aria={aria} value={value} emit={emit} pointer={pointer} />;
}

export function JsonInput({ value, emit, aria, pointer, rows = 2 }: { value: Json | undefined; emit: (value: Json | undefined) => void; aria: object; pointer: string; rows?: number }) {
  const place = `${useFormEnv().draft}${pointer}`;
  const typed = useTyped(place);
  const [text, setText] = useState(() => readTyped(place)?.text ?? write(value));
  useEffect(() => {
    setText((old) => {
      if (typed?.text === old) return old;
      const read = old.trim() === '' ? undefined : parseJson(old).document;
      return equal(read, value) ? old : write(value);
    });
  }, [value, typed]);
  return (
    <>
      <Textarea {...aria} className="w-input w-wide" value={text} autosize minRows={rows} maxRows={16} spellCheck={false} classNames={{ input: 'w-mono' }}
        onChange={(event) => {
          const next = event.currentTarget.value;
          setText(next);
          if (next.trim() === '') {
            keepTyped(place, null);
            emit(undefined);
            return;
          }
          const read = parseJson(next);
          keepTyped(place, read.error === undefined ? null : { text: next, error: read.error, at: read.at });
          if (read.document !== undefined) emit(read.document);
        }} />
      {typed ? <p className="w-mistake" role="status">{typed.error}</p> : null}
    </>
  );
}

function write(value: Json | undefined): string {
  return value === undefined ? '' : writeExact(value, 2);
}
