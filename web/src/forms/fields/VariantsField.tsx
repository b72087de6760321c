/** A value that may have one of several forms, such as a list or an object; the form it has decides what is shown. */
import { useState } from 'react';
import type { FieldProps } from '@rjsf/utils';
import { isExact } from '../../api/exact';
import { isObject, type Json, type JsonObject } from '../json';
import { shape } from '../shape';
import { meets } from '../validator';
import { useField } from './props';

interface Variant {
  label: string;
  type: string;
  schema: JsonObject;
}

function typeOf(value: Json | undefined): string {
  if (Array.isArray(value)) return 'array';
  if (isObject(value)) return 'object';
  return isExact(value) ? 'number' : typeof value;
}

export function VariantsField(props: FieldProps) {
  const { value, options, readOnly, label } = useField(props);
  const variants = (options.variants ?? []) as unknown as Variant[];
  const [picked, setPicked] = useState<number | null>(null);
  const fitting = variants.findIndex((variant) => variant.type === typeOf(value) && meets(variant.schema, value));
  const typed = variants.findIndex((variant) => variant.type === typeOf(value));
  const index = picked ?? Math.max(0, fitting >= 0 ? fitting : typed);
  const variant = variants[index];
  if (!variant) return null;
  const inner = shape(variant.schema, value, { name: String(options.name ?? ''), owner: String(options.owner ?? ''), secrets: [] }, Number(options.depth ?? 1) + 1);
  const SchemaField = props.registry.fields.SchemaField as React.ComponentType<FieldProps> | undefined;
  if (!SchemaField) return null;
  const { 'ui:field': field, ...hints } = inner.uiSchema;
  const Inner = typeof field === 'string' ? (props.registry.fields[field] as React.ComponentType<FieldProps>) : inner.schema.type === 'object' ? (props.registry.fields.ObjectField as React.ComponentType<FieldProps>) : inner.schema.type === 'array' ? (props.registry.fields.ArrayField as React.ComponentType<FieldProps>) : (props.registry.fields.StringField as React.ComponentType<FieldProps>);
  const wrong = value !== undefined && variant.type !== typeOf(value);
  return (
    <div className="w-variants">
      {variants.length > 1 && !readOnly ? (
        <div className="w-choice" role="radiogroup" aria-label={`Form of ${label}`}>
          {variants.map((one, at) => <button key={one.label + at} type="button" role="radio" aria-checked={at === index} onClick={() => setPicked(at)}>{one.label}</button>)}
        </div>
      ) : null}
      {wrong && picked !== null ? <p className="w-help">The document has another form here; the first value replaces it.</p> : null}
      <Inner {...props} schema={inner.schema} uiSchema={hints} formData={wrong ? undefined : props.formData} />
    </div>
  );
}
