/** A secret: shown as set, replaced and never revealed. A fresh one is typed, generated, or named by a reference. */
import { SmallButton } from '../Small';
import { useState } from 'react';
import type { FieldProps } from '@rjsf/utils';
import { TextInput, Textarea } from '@mantine/core';
import { freshKey, isReference } from '../secrets';
import { HIDDEN } from '../shape';
import { useField } from './props';
import { Plain } from './scalars';

export function SecretField(props: FieldProps) {
  const { value, emit, options, aria, readOnly, id, label } = useField(props);
  const [replacing, setReplacing] = useState(false);
  const [fresh, setFresh] = useState<string | null>(null);
  const reference = isReference(value);
  if (readOnly) return <Plain value={value === undefined ? undefined : reference ? value : '•••• set'} id={id} />;
  if (value === HIDDEN && !replacing) {
    return (
      <div className="w-secret">
        <span className="w-plain w-mono" id={id}>•••• set</span>
        <SmallButton onClick={() => setReplacing(true)} aria-label={`Replace ${label}`}>Replace</SmallButton>
      </div>
    );
  }
  const text = typeof value === 'string' && value !== HIDDEN ? value : '';
  const change = (next: string) => {
    setFresh(null);
    emit(next === '' ? (replacing ? HIDDEN : undefined) : next);
  };
  const long = options.long === true;
  return (
    <div className="w-secret-edit">
      <div className="w-secret">
        {long
          ? <Textarea {...aria} className="w-input w-wide" value={text} autosize minRows={3} maxRows={10} spellCheck={false} classNames={{ input: 'w-mono' }} placeholder="-----BEGIN PRIVATE KEY-----" onChange={(event) => change(event.currentTarget.value)} />
          : <TextInput {...aria} className="w-input" type={reference || fresh !== null || text.startsWith('$') ? 'text' : 'password'} value={text} spellCheck={false} autoComplete="new-password" classNames={{ input: 'w-mono' }} placeholder="a value, $ENV://NAME or $secret://MANAGER/ID/KEY" onChange={(event) => change(event.currentTarget.value)} />}
        {long ? null : (
          <SmallButton onClick={() => {
            const made = freshKey();
            setFresh(made);
            emit(made);
          }}>Generate</SmallButton>
        )}
        {replacing ? <SmallButton look="bare" onClick={() => { setReplacing(false); setFresh(null); emit(HIDDEN); }}>Keep the old one</SmallButton> : null}
      </div>
      {fresh !== null ? <p className="w-help" role="status">Copy it now: it is not shown again after it was saved.</p> : null}
    </div>
  );
}
