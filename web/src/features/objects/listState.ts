/** The state of a list in its address: query, sort, columns, peeked row and selection. */
import type { Params } from '../../app/url';
import type { Column, Kind } from './kinds/types';

/** Most ids that the address carries; a larger selection lives in the page only. */
const MOST_IN_ADDRESS = 20;

export interface ListState {
  q: string;
  sort: string;
  columns: Column[];
  peek: string | null;
  selected: string[];
}

/** Reads the address; what it does not know is left at its default. */
export function readList(kind: Kind, params: Params): ListState {
  const sorts = kind.columns.map((column) => column.sort).filter((sort): sort is string => sort !== undefined);
  const asked = params.sort ?? '';
  const sort = sorts.includes(asked.replace(/^-/, '')) ? asked : 'name';
  const chosen = params.cols?.split(',');
  const columns = kind.columns.filter((column) => column.id === 'state' || column.id === 'name' || (chosen ? chosen.includes(column.id) : !column.extra));
  return { q: params.q ?? '', sort, columns, peek: params.peek ?? null, selected: params.sel ? params.sel.split(',').map(decode) : [] };
}

/** The `cols` of a choice, or null for the default one. */
export function writeColumns(kind: Kind, ids: readonly string[]): string | null {
  const usual = kind.columns.filter((column) => !column.extra).map((column) => column.id);
  const next = kind.columns.map((column) => column.id).filter((id) => ids.includes(id) || id === 'state' || id === 'name');
  return next.length === usual.length && next.every((id) => usual.includes(id)) ? null : next.join(',');
}

export function writeSelected(ids: ReadonlySet<string>): string | null {
  return ids.size === 0 || ids.size > MOST_IN_ADDRESS ? null : [...ids].map((id) => encodeURIComponent(id)).join(',');
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The next sort after a click on a column: ascending, descending; figures begin with the largest. */
export function nextSort(current: string, column: Column): string {
  const field = column.sort ?? '';
  if (current === field) return `-${field}`;
  if (current === `-${field}`) return field;
  return column.numeric ? `-${field}` : field;
}

/** A query without its words for a field, for the chips of states and facets. */
export function withoutField(q: string, field: string): string {
  return (q.match(/-?(?:[^\s"]|"[^"]*")+/g) ?? []).filter((word) => !word.replace(/^-/, '').startsWith(`${field}:`)).join(' ');
}

/** The value of a field in a query, if it has one word for it. */
export function fieldOf(q: string, field: string): string | null {
  const words = q.match(/-?(?:[^\s"]|"[^"]*")+/g) ?? [];
  const found = words.find((word) => word.startsWith(`${field}:`));
  return found ? found.slice(field.length + 1).replace(/"/g, '') : null;
}

/** The query with a field set, or without it for null. */
export function withField(q: string, field: string, value: string | null): string {
  const rest = withoutField(q, field);
  if (value === null) return rest;
  const quoted = /[\s"]/.test(value) ? `"${value.replace(/"/g, '')}"` : value;
  return [rest, `${field}:${quoted}`].filter(Boolean).join(' ');
}
