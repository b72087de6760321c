/** Names and values as a two-column table: labels, headers and other free objects. */
import { SmallButton, SmallIcon } from '../Small';
import type { FieldProps } from '@rjsf/utils';
import { TextInput } from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import { isNumber } from '../../api/exact';
import { isObject, type Json, type JsonObject } from '../json';
import { useField } from './props';
import { JsonField } from './JsonField';
import { Plain, readScalar, scalarText } from './scalars';
import { useRows } from './rows';

export function MapField(props: FieldProps) {
  const { value, emit, options, aria, readOnly, id, label } = useField(props);
  const types = Array.isArray(options.types) ? options.types.map(String) : ['string'];
  const object = isObject(value) ? value : {};
  const simple = (value === undefined || isObject(value)) && Object.values(object).every((item) => !isObject(item) && !Array.isArray(item));
  const [rows, change] = useRows<[string, Json]>(simple ? Object.entries(object) as [string, Json][] : [], (list) => {
    const out: JsonObject = {};
    for (const [name, item] of list) if (name !== '' && name !== '__proto__') out[name] = item;
    emit(list.length === 0 && value === undefined ? undefined : out);
  }, (list) => Object.fromEntries(list.filter(([name]) => name !== '')));
  if (!simple) return <JsonField {...props} />;
  if (readOnly) return rows.length === 0 ? <Plain value={undefined} id={id} /> : <dl className="w-pairs" id={id}>{rows.map(([name, item]) => <div key={name}><dt>{name}</dt><dd>{scalarText(item, 400)}</dd></div>)}</dl>;
  const text = (item: Json) => scalarText(item, Number.POSITIVE_INFINITY);
  return (
    <div className="w-rows" role="group" aria-labelledby={`${id}-label`}>
      {rows.map(([name, item], index) => (
        <div className="w-row" key={index}>
          <TextInput id={index === 0 ? aria.id : undefined} aria-label={`${label}: name ${index + 1}`} value={name} spellCheck={false} classNames={{ input: 'w-mono' }} onChange={(event) => change(rows.with(index, [event.currentTarget.value, item]))} />
          <TextInput aria-label={`${label}: value of ${name || index + 1}`} value={text(item)} spellCheck={false} classNames={{ input: 'w-mono' }} onChange={(event) => change(rows.with(index, [name, readScalar(event.currentTarget.value, isNumber(item) ? [...types, 'number'] : types) ?? '']))} />
          <SmallIcon label={`Remove ${name || `row ${index + 1}`}`} onClick={() => change(rows.toSpliced(index, 1))} icon={<IconX size={14} stroke={1.75} />} />
        </div>
      ))}
      <div><SmallButton icon={<IconPlus size={14} stroke={1.75} aria-hidden />} onClick={() => change([...rows, ['', '']])}>Add a row</SmallButton></div>
    </div>
  );
}
