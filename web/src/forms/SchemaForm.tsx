/** A form for a document by its schema. It edits the document with one change at a time and writes no default. */
import { useCallback, useMemo, useRef } from 'react';
// The module itself, because the package's entry pulls in a validator that compiles code.
import Form, { type IChangeEvent } from '@rjsf/core/lib/components/Form.js';
import type { RJSFSchema, UiSchema } from '@rjsf/utils';
import { applyPatch, patchOf } from './document';
import { fields } from './fields/registry';
import { isObject, type Json } from './json';
import { shape } from './shape';
import { templates } from './templates/templates';
import { formValidator } from './validator';
import './forms.css';

/** A titled group of fields at the root of a form. */
export interface Section {
  title: string;
  fields: string[];
  /** Fields shown although the document does not have them. */
  open?: string[];
  /** Alternatives of which an object has one, such as the target of a route. */
  choice?: { label: string; fields: string[] }[];
}

export interface SchemaFormProps {
  schema: Json;
  document: Json;
  onChange: (next: Json) => void;
  /** The name of the kind or plugin, for hints by name. */
  name: string;
  sections?: readonly Section[];
  /** Fields that the form does not show, such as the id. */
  hide?: readonly string[];
  readOnly?: boolean;
  idPrefix: string;
}

/** Keeps the form library from filling in anything. */
const NO_DEFAULTS = { emptyObjectFields: 'skipDefaults', arrayMinItems: { populate: 'never' }, allOf: 'skipDefaults', constAsDefaults: 'never' } as const;

export function SchemaForm({ schema, document, onChange, name, sections, hide, readOnly, idPrefix }: SchemaFormProps) {
  const secrets = useMemo(() => (isObject(schema) && Array.isArray(schema.encrypt_fields) ? schema.encrypt_fields.map(String) : []), [schema]);
  const shaped = useMemo(() => {
    const made = shape(schema, document, { name, owner: name, secrets });
    const properties = { ...(made.schema.properties as Record<string, RJSFSchema> | undefined) };
    for (const field of hide ?? []) delete properties[field];
    const options = { ...made.uiSchema['ui:options'], sections: sections as unknown as never };
    return { schema: { ...made.schema, properties }, uiSchema: { ...made.uiSchema, 'ui:options': options, 'ui:submitButtonOptions': { norender: true } } as UiSchema };
  }, [schema, document, name, secrets, sections, hide]);
  const stable = useStable(shaped);
  const current = useRef(document);
  current.current = document;

  const changed = useCallback((event: IChangeEvent, id?: string) => {
    // Changes without the id of a field are the library's own, and the document is not its to change.
    if (id === undefined || event.formData === undefined) return;
    const next = applyPatch(current.current, patchOf(current.current, clean(event.formData as Json)));
    if (next !== current.current) {
      current.current = next;
      onChange(next);
    }
  }, [onChange]);

  return (
    <Form
      tagName="div"
      className="w-form"
      schema={stable.schema}
      uiSchema={stable.uiSchema}
      formData={document}
      validator={formValidator as never}
      fields={fields}
      templates={templates}
      onChange={changed}
      noValidate
      noHtml5Validate
      readonly={readOnly}
      idPrefix={idPrefix}
      idSeparator="/"
      showErrorList={false}
      experimental_defaultFormStateBehavior={NO_DEFAULTS}
    />
  );
}

/** The last equal shape, so that typing does not make the library build its state anew. */
function useStable<T>(value: T): T {
  const kept = useRef<{ text: string; value: T } | null>(null);
  const text = JSON.stringify(value);
  if (kept.current?.text !== text) kept.current = { text, value };
  return kept.current.value;
}

/** The data without fields that are undefined, which JSON does not have. */
function clean(value: Json): Json {
  if (Array.isArray(value)) return value.map((item) => clean((item ?? null) as Json));
  if (!isObject(value)) return value;
  const out: Record<string, Json> = {};
  for (const [key, item] of Object.entries(value)) if (item !== undefined) out[key] = clean(item);
  return out;
}
