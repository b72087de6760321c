/** The id of another object, chosen by id or name, with a link to it. */
import { useEffect, useState } from 'react';
import type { FieldProps } from '@rjsf/utils';
import { Autocomplete } from '@mantine/core';
import { Go } from '../../ui/Go';
import type { Candidate } from '../env';
import { useField } from './props';
import { Plain } from './scalars';

/** Waits this long after the last key before it asks for candidates. */
const PAUSE_MS = 150;

export function ReferenceField(props: FieldProps) {
  const { value, emit, options, aria, readOnly, id, env } = useField(props);
  const kind = String(options.kind ?? '');
  const text = value === undefined ? '' : String(value);
  const [found, setFound] = useState<Candidate[]>([]);
  const [asked, setAsked] = useState(false);
  useEffect(() => {
    if (!asked) return undefined;
    let live = true;
    const timer = setTimeout(() => {
      env.candidates(kind, text).then((list) => live && setFound(list), () => live && setFound([]));
    }, PAUSE_MS);
    return () => {
      live = false;
      clearTimeout(timer);
    };
  }, [asked, kind, text, env]);
  const link = text === '' ? null : <Go className="w-open" to={env.linkTo(kind, text)}>Open {text}</Go>;
  if (readOnly) return <div className="w-secret"><Plain value={value} id={id} />{link}</div>;
  const names = new Map(found.map((one) => [one.id, one.name]));
  return (
    <div className="w-secret">
      <Autocomplete {...aria} className="w-input" value={text} data={[...names.keys()]} limit={50} filter={({ options: all }) => all} spellCheck={false} placeholder={`id of one of the ${kind.replace('_', ' ')}`}
        onFocus={() => setAsked(true)}
        onChange={(next) => emit(next === '' ? undefined : typeof value === 'number' && String(value) === next ? value : next)}
        renderOption={({ option }) => <span className="w-candidate"><span>{names.get(option.value) ?? option.value}</span><code>{option.value}</code></span>}
        comboboxProps={{ shadow: 'sm', transitionProps: { duration: 0 } }} />
      {link}
    </div>
  );
}
