/** Objects as the Admin API stores them and as a set of objects names them. */
import { request } from '../../api/client';
import { equal, isObject, type Json, type JsonObject } from '../../forms/json';
import type { ObjectSet } from '../../forms/plan';
import { splitKey } from '../../forms/plan';

/** An object as the Admin API answers it. */
export interface Stored {
  value: JsonObject;
  index: number;
  etag: string | null;
  created: number | null;
  updated: number | null;
}

/** Fields that the server keeps itself. */
const SERVER_FIELDS = ['create_time', 'update_time'];

/** The document of a stored value: without what the server keeps, and without the id, which stands in the address. */
export function documentOf(value: JsonObject, kind: string): JsonObject {
  const out: JsonObject = {};
  for (const [key, item] of Object.entries(value)) {
    if (SERVER_FIELDS.includes(key) || (key === 'id' && kind !== 'consumers') || (key === 'id' && kind === 'consumers')) continue;
    out[key] = item;
  }
  return out;
}

/** The path of an object below the Admin API. */
export function adminPath(kind: string, id: string): string {
  return `${kind}/${id.split('/').map(encodeURIComponent).join('/')}`;
}

/** Reads an object. Times are seconds in the Admin API and milliseconds here. */
export async function load(kind: string, id: string, signal?: AbortSignal): Promise<Stored> {
  const { data, etag } = await request<{ value: JsonObject; modifiedIndex: number }>('GET', adminPath(kind, id), { signal, exact: true });
  const time = (name: string) => (typeof data.value[name] === 'number' ? (data.value[name] as number) * 1000 : null);
  return { value: data.value, index: data.modifiedIndex, etag, created: time('create_time'), updated: time('update_time') };
}

/** An object of a set: the document with its id under the name that the kind uses. */
export function memberOf(kind: string, id: string, document: Json): Json {
  const fields = isObject(document) ? document : {};
  if (kind === 'consumers' && !id.includes('/')) return { ...fields, username: id };
  return { id, ...fields };
}

/** A set of one object. */
export function setOf(kind: string, id: string, document: Json): ObjectSet {
  return { [kind]: [memberOf(kind, id, document)] };
}

/** Objects read at once when many are changed. */
const AT_ONCE = 6;

/** Reads many objects, a few at a time. */
export async function loadMany(kind: string, ids: readonly string[]): Promise<Map<string, JsonObject>> {
  const found = new Map<string, JsonObject>();
  const queue = [...ids];
  const worker = async () => {
    for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
      found.set(id, documentOf((await load(kind, id)).value, kind));
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, ids.length) }, worker));
  return found;
}

/** The set that a change of each object makes; objects that stay as they are are left out. */
export async function changedSet(kind: string, ids: readonly string[], change: (document: JsonObject) => JsonObject): Promise<ObjectSet> {
  const found = await loadMany(kind, ids);
  const members: Json[] = [];
  for (const [id, document] of found) {
    const next = change(document);
    if (!equal(next, document)) members.push(memberOf(kind, id, next));
  }
  return { [kind]: members };
}

/** Where an object's page is, for a key such as `consumers/ana/credentials/one`. */
export function placeOf(key: string): { kind: string; id: string } {
  return splitKey(key);
}
