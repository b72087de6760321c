/** The one document that form and source edit: JSON patches (RFC 6902) and the difference of two documents. */
import { equal, escapeToken, isObject, tokensOf, type Json, type JsonObject } from './json';

/** A step of a patch. `add` of a list index inserts, as RFC 6902 says. */
export type Operation =
  | { op: 'add'; path: string; value: Json }
  | { op: 'replace'; path: string; value: Json }
  | { op: 'remove'; path: string };

/** A field that differs between two documents; a side is undefined where the field does not exist. */
export interface FieldChange {
  pointer: string;
  before?: Json;
  after?: Json;
}

/** Keys that would reach the prototype of an object in a careless program; patches refuse them. */
const REFUSED_KEYS = new Set(['__proto__']);

/**
 * Applies a patch and returns the new document; the old one stays as it is and both share what did not change.
 * Fails with an Error if a step names a place that does not exist.
 */
export function applyPatch(document: Json, patch: readonly Operation[]): Json {
  return patch.reduce<Json>((current, step) => applyStep(current, tokensOf(step.path), step), document);
}

function applyStep(value: Json, tokens: readonly string[], step: Operation): Json {
  const [token, ...rest] = tokens;
  if (token === undefined) return step.op === 'remove' ? null : step.value;
  if (REFUSED_KEYS.has(token)) throw new Error(`${step.path}: ${token} is not a usable key`);
  if (Array.isArray(value)) return inList(value, token, rest, step);
  if (isObject(value)) return inObject(value, token, rest, step);
  throw new Error(`${step.path}: there is no object or list to change`);
}

function inList(list: Json[], token: string, rest: readonly string[], step: Operation): Json {
  const index = token === '-' ? list.length : Number(token);
  const last = rest.length === 0 && step.op === 'add' ? list.length : list.length - 1;
  if (!/^(\d+|-)$/.test(token) || index > last) throw new Error(`${step.path}: the list has no place ${token}`);
  const copy = [...list];
  if (rest.length > 0) copy[index] = applyStep(list[index] as Json, rest, step);
  else if (step.op === 'remove') copy.splice(index, 1);
  else if (step.op === 'add') copy.splice(index, 0, step.value);
  else copy[index] = step.value;
  return copy;
}

function inObject(object: JsonObject, token: string, rest: readonly string[], step: Operation): Json {
  const exists = Object.hasOwn(object, token);
  if (rest.length > 0) {
    if (!exists) throw new Error(`${step.path}: ${token} does not exist`);
    return { ...object, [token]: applyStep(object[token] as Json, rest, step) };
  }
  if (step.op === 'add') return { ...object, [token]: step.value };
  if (!exists) throw new Error(`${step.path}: ${token} does not exist`);
  if (step.op === 'replace') return { ...object, [token]: step.value };
  const { [token]: _removed, ...others } = object;
  return others;
}

/** The patch that turns `before` into `after`. Lists of one length differ item by item, others are replaced whole. */
export function patchOf(before: Json, after: Json): Operation[] {
  const steps: Operation[] = [];
  compare(before, after, '', steps);
  return steps;
}

function compare(before: Json, after: Json, pointer: string, steps: Operation[]): void {
  if (equal(before, after)) return;
  if (isObject(before) && isObject(after)) {
    for (const key of Object.keys(before)) {
      if (!Object.hasOwn(after, key)) steps.push({ op: 'remove', path: `${pointer}/${escapeToken(key)}` });
    }
    for (const [key, value] of Object.entries(after)) {
      const path = `${pointer}/${escapeToken(key)}`;
      if (!Object.hasOwn(before, key)) steps.push({ op: 'add', path, value });
      else compare(before[key] as Json, value, path, steps);
    }
  } else if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    after.forEach((value, index) => compare(before[index] as Json, value, `${pointer}/${index}`, steps));
  } else {
    steps.push({ op: 'replace', path: pointer, value: after });
  }
}

/** The fields that differ, deepest place first named whole: an added object is one field. */
export function fieldChanges(before: Json | undefined, after: Json | undefined): FieldChange[] {
  if (before === undefined && after === undefined) return [];
  if (before === undefined) return [{ pointer: '', after: after as Json }];
  if (after === undefined) return [{ pointer: '', before }];
  return patchOf(before, after).map((step) => {
    const change: FieldChange = { pointer: step.path };
    const old = readAt(before, step.path);
    if (old !== undefined) change.before = old;
    if (step.op !== 'remove') change.after = step.value;
    return change;
  });
}

function readAt(document: Json, pointer: string): Json | undefined {
  let current: Json | undefined = document;
  for (const token of tokensOf(pointer)) {
    if (Array.isArray(current)) current = current[Number(token)];
    else if (isObject(current)) current = current[token];
    else return undefined;
  }
  return current;
}

/** The document with a value at a pointer; missing objects on the way are created. Undefined removes the field. */
export function withValue(document: Json, pointer: string, value: Json | undefined): Json {
  return setIn(document, tokensOf(pointer), value);
}

function setIn(document: Json | undefined, tokens: readonly string[], value: Json | undefined): Json {
  const [token, ...rest] = tokens;
  if (token === undefined) return value ?? null;
  if (REFUSED_KEYS.has(token)) throw new Error(`${token} is not a usable key`);
  if (Array.isArray(document)) {
    const copy = [...document];
    const index = token === '-' ? copy.length : Number(token);
    if (rest.length === 0 && value === undefined) copy.splice(index, 1);
    else copy[index] = setIn(copy[index], rest, value);
    return copy;
  }
  const object = isObject(document) ? document : {};
  if (rest.length === 0 && value === undefined) {
    const { [token]: _removed, ...others } = object;
    return others;
  }
  return { ...object, [token]: setIn(object[token], rest, value) };
}
