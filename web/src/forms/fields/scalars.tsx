/** Fields of single values: texts, numbers, switches, choices, and values of several types. */
import { useEffect, useState } from 'react';
import type { FieldProps } from '@rjsf/utils';
import { NativeSelect, Switch, TextInput, Textarea } from '@mantine/core';
import { numberOf, plainText, writeExact } from '../../api/exact';
import { brief, type Json } from '../json';
import { useField } from './props';

/** A value as text, where the form is read-only. */
export function Plain({ value, fallback, id }: { value: Json | undefined; fallback?: Json; id: string }) {
  const text = value === undefined ? (fallback === undefined ? 'not set' : `${String(fallback)} (default)`) : scalarText(value, 400);
  return <div id={id} className="w-plain" data-unset={value === undefined || undefined}>{text === '' ? '(empty)' : text}</div>;
}

/** A value as the text of an input; objects and lists as JSON, cut. */
export function scalarText(value: Json, limit: number): string {
  return typeof value === 'string' ? plainText(value) : brief(value, limit);
}

function hint(fallback: Json | undefined): string | undefined {
  if (fallback === undefined || fallback === '') return undefined;
  return typeof fallback === 'string' ? fallback : brief(fallback, 60);
}

export function TextField(props: FieldProps) {
  const { value, emit, options, aria, readOnly, id } = useField(props);
  const choices = props.schema.enum as Json[] | undefined;
  if (readOnly) return <Plain value={value} fallback={options.fallback} id={id} />;
  if (choices) return <Choice {...props} />;
  const text = value === undefined ? '' : scalarText(value, 400);
  const change = (next: string) => emit(next === '' && options.needed !== true ? undefined : next);
  if (props.uiSchema?.['ui:widget'] === 'textarea') {
    return <Textarea {...aria} className="w-input w-wide" value={text} onChange={(event) => change(event.currentTarget.value)} autosize minRows={2} maxRows={14} spellCheck={false} classNames={{ input: 'w-mono' }} />;
  }
  return <TextInput {...aria} className="w-input" value={text} placeholder={hint(options.fallback)} onChange={(event) => change(event.currentTarget.value)} spellCheck={false} autoComplete="off" />;
}

/** A choice out of fixed values; the first entry leaves the field out. */
export function Choice(props: FieldProps) {
  const { value, emit, options, aria } = useField(props);
  const choices = (props.schema.enum ?? []) as Json[];
  const index = choices.findIndex((choice) => choice === value);
  const none = options.fallback === undefined ? 'not set' : `${String(options.fallback)} (default)`;
  const data = [
    ...(options.needed === true && value !== undefined ? [] : [{ value: '', label: none }]),
    ...choices.map((choice, at) => ({ value: String(at), label: String(choice) })),
    ...(value !== undefined && index < 0 ? [{ value: 'other', label: `${brief(value, 40)} (not allowed)` }] : []),
  ];
  return (
    <NativeSelect {...aria} className="w-input w-narrow" data={data} value={value === undefined ? '' : index < 0 ? 'other' : String(index)} onChange={(event) => {
      const at = event.currentTarget.value;
      if (at !== 'other') emit(at === '' ? undefined : choices[Number(at)]);
    }} />
  );
}

export function NumberField(props: FieldProps) {
  const { value, emit, options, aria, readOnly, id } = useField(props);
  const [draft, setDraft] = useState<string | null>(null);
  useEffect(() => setDraft((old) => (old !== null && toNumber(old) === value ? old : null)), [value]);
  if (readOnly) return <Plain value={value} fallback={options.fallback} id={id} />;
  if (props.schema.enum) return <Choice {...props} />;
  const text = draft ?? (value === undefined ? '' : scalarText(value, 400));
  return (
    <TextInput {...aria} className="w-input w-narrow" inputMode="decimal" value={text} placeholder={hint(options.fallback)} autoComplete="off"
      onChange={(event) => {
        const typed = event.currentTarget.value;
        setDraft(typed);
        emit(typed.trim() === '' ? undefined : toNumber(typed));
      }}
      onBlur={() => setDraft(null)} />
  );
}

/** The number that a text writes; a text that is none stays a text, and the check says so at the field. */
function toNumber(text: string): Json {
  const trimmed = text.trim();
  return numberOf(trimmed) ?? (/^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(trimmed) ? Number(trimmed) : text);
}

export function SwitchField(props: FieldProps) {
  const { value, emit, options, aria, readOnly, id } = useField(props);
  if (readOnly) return <Plain value={value} fallback={options.fallback} id={id} />;
  if (value !== undefined && typeof value !== 'boolean') return <ScalarField {...props} />;
  const fallback = options.fallback === true;
  return (
    <div className="w-switch">
      <Switch {...aria} checked={value ?? fallback} onChange={(event) => emit(event.currentTarget.checked)} />
      <span className="w-quiet">{value === undefined ? `${fallback ? 'on' : 'off'} (default)` : value ? 'on' : 'off'}</span>
    </div>
  );
}

/** The switch of `status`: 1 or 0 in the document. */
export function StatusField(props: FieldProps) {
  const { value, emit, aria, readOnly, id } = useField(props);
  if (readOnly) return <Plain value={value === 0 ? 'off' : 'on'} id={id} />;
  return (
    <div className="w-switch">
      <Switch {...aria} checked={value !== 0} onChange={(event) => emit(event.currentTarget.checked ? 1 : 0)} />
      <span className="w-quiet">{value === 0 ? 'off: it matches no request' : value === undefined ? 'on (default)' : 'on'}</span>
    </div>
  );
}

/** One input for a value of several types, such as a whole number or a text with variables. */
export function ScalarField(props: FieldProps) {
  const { value, emit, options, aria, readOnly, id } = useField(props);
  const types = Array.isArray(options.types) ? options.types.map(String) : ['string'];
  if (readOnly) return <Plain value={value} fallback={options.fallback} id={id} />;
  if (types.includes('boolean') && types.length === 1) return <SwitchField {...props} />;
  const text = value === undefined ? '' : typeof value === 'string' ? plainText(value) : writeExact(value);
  return <TextInput {...aria} className="w-input" value={text} placeholder={hint(options.fallback)} autoComplete="off" spellCheck={false} onChange={(event) => emit(readScalar(event.currentTarget.value, types))} />;
}

/** The value of a typed text: a number or a boolean where the types allow it, otherwise the text. */
export function readScalar(text: string, types: readonly string[]): Json | undefined {
  if (text === '') return undefined;
  const trimmed = text.trim();
  if (types.includes('integer') && /^-?\d{1,15}$/.test(trimmed)) return Number(trimmed);
  if (types.includes('integer') && /^-?\d+$/.test(trimmed)) return numberOf(trimmed) ?? text;
  if (types.includes('number') && /^-?\d+(\.\d+)?$/.test(trimmed)) return numberOf(trimmed) ?? text;
  if (types.includes('boolean') && (trimmed === 'true' || trimmed === 'false')) return trimmed === 'true';
  return text;
}
