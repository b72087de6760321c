/** Plans and their application: what a change of the configuration would do, asked before it is made. */
import { ApiError, request, type Options, type Query } from '../api/client';
import { readPref } from '../app/prefs';
import { count } from '../ui/format';
import type { Json } from './json';
import type { FieldChange } from './document';
import type { Fault } from './validator';

export interface ObjectChange {
  key: string;
  action: 'create' | 'change' | 'delete';
  fields: FieldChange[];
}

export interface Plan {
  revision: number;
  create: number;
  change: number;
  delete: number;
  objects: ObjectChange[];
}

export interface Applied extends Plan {
  before: number;
}

/** A fault of a set: at a field of an object, or at a line of the text. */
export interface SetFault extends Partial<Fault> {
  reason: string;
  key?: string | null;
  line?: number;
  place?: string;
}

/** Objects by collection, and keys to delete. */
export type ObjectSet = Record<string, Json[]>;

/** The header that names the author of a change, where one was given. */
export function authorHeaders(): Record<string, string> {
  const author = (readPref('author') ?? '').trim().slice(0, 100);
  // A field of HTTP takes visible ASCII; other characters would fail the request.
  return /^[\x20-\x7e]+$/.test(author) ? { 'X-Weir-Author': author } : {};
}

/** Asks for a plan; its fields hold values of documents. */
async function ask(path: string, options: Options): Promise<Plan> {
  return (await request<Plan>('POST', path, { ...options, exact: true })).data;
}

/** The plan of a set whose other objects stay. */
export function planSet(set: ObjectSet, signal?: AbortSignal): Promise<Plan> {
  return ask('weir/plan', { body: set, query: { keep_others: true }, signal });
}

/** Applies a set if the instance is still at a revision. */
export async function applySet(set: ObjectSet, expect: number): Promise<Applied> {
  const { data } = await request<Applied>('POST', 'weir/apply', { body: set, query: { keep_others: true, expect }, headers: authorHeaders(), exact: true });
  return data;
}

/** The plan between two revisions, or from the present one. */
export function planBetween(query: Query, signal?: AbortSignal): Promise<Plan> {
  return ask('weir/plan', { query, signal });
}

/** The plan of a whole text, YAML or JSON. */
export function planText(text: string, query: Query): Promise<Plan> {
  return ask('weir/plan', { body: text, query });
}

export async function applyText(text: string, query: Query): Promise<Applied> {
  return (await request<Applied>('POST', 'weir/apply', { body: text, query, headers: authorHeaders(), exact: true })).data;
}

/** The faults that a refused set has, or none if the answer is of another sort. */
export function faultsOf(error: unknown): SetFault[] {
  if (!(error instanceof ApiError) || error.status !== 400) return [];
  const { faults } = error.body;
  if (!Array.isArray(faults)) return [{ reason: error.message }];
  // The answer writes keys with a slash in front; everywhere else they have none.
  return (faults as SetFault[]).map((fault) => (fault.key?.startsWith('/') ? { ...fault, key: fault.key.slice(1) } : fault));
}

/** The kind and the id of an object's key. */
export function splitKey(key: string): { kind: string; id: string } {
  const cut = key.indexOf('/');
  return cut < 0 ? { kind: key, id: '' } : { kind: key.slice(0, cut), id: key.slice(cut + 1) };
}

/** Deletes first, then changes, then what is new; by key within. */
export function inOrder(objects: readonly ObjectChange[]): ObjectChange[] {
  const rank = { delete: 0, change: 1, create: 2 };
  return [...objects].sort((a, b) => rank[a.action] - rank[b.action] || (a.key < b.key ? -1 : 1));
}

/** The sentence of a plan: 12 created, 3 changed, 1 deleted. */
export function sentenceOf(plan: Plan): string {
  const parts = [
    plan.delete > 0 ? `${count(plan.delete)} deleted` : '',
    plan.change > 0 ? `${count(plan.change)} changed` : '',
    plan.create > 0 ? `${count(plan.create)} created` : '',
  ].filter(Boolean);
  return parts.length > 0 ? parts.join(', ') : 'nothing changes';
}
