/** What every field gets, reduced to what fields here use. */
import type { FieldProps } from '@rjsf/utils';
import { pointerOf, type Json } from '../json';
import { faultsAt, useFormEnv, type Emit, type FormEnv } from '../env';

export interface Wired {
  id: string;
  env: FormEnv;
  /** The place in the whole document. */
  pointer: string;
  value: Json | undefined;
  emit: Emit;
  readOnly: boolean;
  options: Record<string, Json | undefined>;
  /** Properties that tie the input to its label, help and faults; `error` becomes `aria-invalid`. */
  aria: { id: string; 'aria-describedby': string | undefined; error: boolean };
  label: string;
}

export function useField(props: FieldProps): Wired {
  const env = useFormEnv();
  const { fieldPathId, formData, onChange, uiSchema, readonly } = props;
  const path = fieldPathId.path;
  const id = fieldPathId.$id;
  const pointer = env.base + pointerOf(path);
  const { here } = faultsAt(env, pointer);
  const described = [props.schema.description ? `${id}-help` : '', here.length > 0 ? `${id}-faults` : ''].filter(Boolean).join(' ');
  return {
    id,
    env,
    pointer,
    value: formData as Json | undefined,
    emit: (value) => onChange(value as never, path, undefined, id),
    readOnly: env.readOnly || readonly === true,
    options: (uiSchema?.['ui:options'] ?? {}) as Record<string, Json | undefined>,
    aria: { id, 'aria-describedby': described || undefined, error: here.length > 0 },
    label: String(path.at(-1) ?? ''),
  };
}
