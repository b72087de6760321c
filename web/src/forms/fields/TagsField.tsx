/** A list of texts or numbers as tags, with suggestions where the values are fixed. */
import type { FieldProps } from '@rjsf/utils';
import { TagsInput } from '@mantine/core';
import '@mantine/core/styles/InlineInput.layer.css';
import '@mantine/core/styles/Pill.layer.css';
import '@mantine/core/styles/PillsInput.layer.css';
import '@mantine/core/styles/ScrollArea.layer.css';
import { isObject, type Json } from '../json';
import { JsonField } from './JsonField';
import { useField } from './props';
import { Plain } from './scalars';

export function TagsField(props: FieldProps) {
  const { value, emit, options, aria, readOnly, id } = useField(props);
  const list = value === undefined ? [] : value;
  const simple = Array.isArray(list) && list.every((item) => !isObject(item) && !Array.isArray(item));
  if (!simple) return <JsonField {...props} />;
  const items = list as Json[];
  if (readOnly) return <Plain value={items.length > 0 ? items.map(String).join('   ') : undefined} id={id} />;
  const fixed = Array.isArray(options.values) ? options.values.map(String) : undefined;
  const toValue = (text: string): Json => {
    const same = items.find((item) => String(item) === text);
    if (same !== undefined) return same;
    return options.numbers === true && /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
  };
  const fallback = Array.isArray(options.fallback) && items.length === 0 ? options.fallback.map(String).join(', ') : undefined;
  return (
    <TagsInput {...aria} className="w-input w-wide" value={items.map(String)} data={fixed} acceptValueOnBlur splitChars={[',', '\n']}
      placeholder={items.length === 0 ? fallback ?? (fixed ? 'choose' : 'type and press Enter') : undefined}
      onChange={(next) => emit(next.length === 0 && options.needed !== true ? undefined : next.map(toValue))}
      comboboxProps={{ shadow: 'sm', transitionProps: { duration: 0 } }} classNames={{ pill: 'w-mono', inputField: 'w-mono' }} />
  );
}
