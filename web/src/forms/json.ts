/** JSON values and their JSON pointers (RFC 6901). */
import { isExact, writeExact } from '../api/exact';

/** A number that JavaScript would write in another way stands as a marked text (`exact.ts`). */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

/** Whether a value is a JSON object, that is neither null nor a list. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** One reference token of a pointer, escaped. */
export function escapeToken(token: string): string {
  return token.replace(/~/g, '~0').replace(/\//g, '~1');
}

/** The tokens of a pointer; a pointer without a leading slash has none. */
export function tokensOf(pointer: string): string[] {
  if (!pointer.startsWith('/')) return [];
  return pointer.slice(1).split('/').map((token) => token.replace(/~1/g, '/').replace(/~0/g, '~'));
}

/** The pointer of a path of keys and indexes. */
export function pointerOf(path: readonly (string | number)[]): string {
  return path.map((token) => `/${escapeToken(String(token))}`).join('');
}

/** Whether `pointer` is `ancestor` or lies below it. */
export function isWithin(pointer: string, ancestor: string): boolean {
  return pointer === ancestor || pointer.startsWith(`${ancestor}/`);
}

/** The value at a pointer, or undefined where there is none. Never reads inherited properties. */
export function valueAt(value: Json | undefined, pointer: string): Json | undefined {
  let current: Json | undefined = value;
  for (const token of tokensOf(pointer)) {
    if (Array.isArray(current)) current = /^\d+$/.test(token) ? current[Number(token)] : undefined;
    else if (isObject(current)) current = Object.hasOwn(current, token) ? current[token] : undefined;
    else return undefined;
  }
  return current;
}

/** Whether two values are the same document; the order of an object's keys does not matter. */
export function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => equal(item, b[index]));
  }
  if (isObject(a) && isObject(b)) {
    const keys = Object.keys(a);
    if (keys.length !== Object.keys(b).length) return false;
    return keys.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key]));
  }
  return false;
}

/** A value as one short line, for tables and sentences. */
export function brief(value: Json | undefined, limit = 120): string {
  if (value === undefined) return '–';
  const text = writeExact(value);
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}

/** The type of a value in the words that users read. */
export function typeWord(value: Json | undefined): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'an object';
  if (isExact(value)) return 'a number';
  if (typeof value === 'string') return 'a text';
  if (typeof value === 'boolean') return 'true or false';
  return Number.isInteger(value) ? 'a whole number' : 'a number';
}
