/** The nodes of an upstream as a table, written back in the form that the document has: weights by address, or a list. */
import { SmallButton, SmallIcon } from '../Small';
import type { FieldProps } from '@rjsf/utils';
import { TextInput } from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import { isObject, type Json, type JsonObject } from '../json';
import { useField } from './props';
import { Plain } from './scalars';
import { useRows } from './rows';

/** One node as it is edited; `rest` holds the fields that the table does not show. */
export interface NodeRow {
  address: string;
  weight: string;
  priority: string;
  rest: JsonObject;
}

/** The rows of `nodes`. */
export function nodeRows(nodes: Json | undefined): NodeRow[] {
  if (isObject(nodes)) return Object.entries(nodes).map(([address, weight]) => ({ address, weight: String(weight), priority: '', rest: {} }));
  if (!Array.isArray(nodes)) return [];
  return nodes.filter(isObject).map(({ host, port, weight, priority, ...rest }) => ({
    address: `${String(host ?? '')}${port === undefined ? '' : `:${String(port)}`}`,
    weight: weight === undefined ? '' : String(weight),
    priority: priority === undefined ? '' : String(priority),
    rest,
  }));
}

/** `nodes` of rows: a list, or weights by address. Rows without an address are left out. */
export function nodesOf(rows: readonly NodeRow[], asList: boolean): Json {
  const number = (text: string): Json => (/^-?\d+$/.test(text.trim()) ? Number(text) : text);
  const full = rows.filter((row) => row.address.trim() !== '');
  if (!asList) return Object.fromEntries(full.map((row) => [row.address.trim(), number(row.weight)]));
  return full.map((row) => {
    const cut = /^(.*):(\d{1,5})$/.exec(row.address.trim());
    const bare = cut && (!cut[1]?.includes(':') || cut[1].endsWith(']')) ? cut : null;
    const node: JsonObject = { host: bare?.[1] ?? row.address.trim() };
    if (bare) node.port = Number(bare[2]);
    node.weight = number(row.weight);
    if (row.priority.trim() !== '') node.priority = number(row.priority);
    return { ...node, ...row.rest };
  });
}

export function NodesField(props: FieldProps) {
  const { value, emit, aria, readOnly, id, label } = useField(props);
  const asList = Array.isArray(value);
  const [rows, change] = useRows<NodeRow>(nodeRows(value), (list) => emit(nodesOf(list, asList)), (list) => nodesOf(list, asList));
  if (readOnly) return rows.length === 0 ? <Plain value={undefined} id={id} /> : <dl className="w-pairs" id={id}>{rows.map((row) => <div key={row.address}><dt>{row.address}</dt><dd>weight {row.weight}{row.priority ? `, priority ${row.priority}` : ''}</dd></div>)}</dl>;
  const set = (index: number, part: Partial<NodeRow>) => change(rows.with(index, { ...(rows[index] as NodeRow), ...part }));
  return (
    <div className="w-rows" role="group" aria-labelledby={`${id}-label`}>
      {rows.length > 0 ? (
        <div className="w-row w-row-head" aria-hidden><span>Address</span><span className="w-weight">Weight</span>{asList ? <span className="w-weight">Priority</span> : null}<span className="w-row-end" /></div>
      ) : null}
      {rows.map((row, index) => (
        <div className="w-row" key={index}>
          <TextInput id={index === 0 ? aria.id : undefined} aria-label={`${label}: address ${index + 1}`} placeholder="10.0.0.1:8080" value={row.address} spellCheck={false} classNames={{ input: 'w-mono' }} onChange={(event) => set(index, { address: event.currentTarget.value })} />
          <TextInput className="w-weight" aria-label={`Weight of ${row.address || index + 1}`} inputMode="numeric" value={row.weight} onChange={(event) => set(index, { weight: event.currentTarget.value })} />
          {asList ? <TextInput className="w-weight" aria-label={`Priority of ${row.address || index + 1}`} placeholder="0" inputMode="numeric" value={row.priority} onChange={(event) => set(index, { priority: event.currentTarget.value })} /> : null}
          <SmallIcon label={`Remove ${row.address || `node ${index + 1}`}`} onClick={() => change(rows.toSpliced(index, 1))} icon={<IconX size={14} stroke={1.75} />} />
        </div>
      ))}
      <div className="w-actions">
        <SmallButton icon={<IconPlus size={14} stroke={1.75} aria-hidden />} onClick={() => change([...rows, { address: '', weight: '1', priority: '', rest: {} }])}>Add a node</SmallButton>
        {!asList && rows.length > 0 ? <button type="button" className="w-link" onClick={() => emit(nodesOf(rows, true))}>Write as a list, with priorities</button> : null}
      </div>
    </div>
  );
}
