/** Secret fields of a document: masked before anything shows or keeps it, put back before it is sent. */
import { withValue } from './document';
import { pluginSchema, type PluginInfo } from './env';
import { isObject, pointerOf, valueAt, type Json, type JsonObject } from './json';
import { HIDDEN } from './shape';

/** Fields outside plugins that are secret, by kind; `*` stands for any key or index. */
const OF_KINDS: Record<string, string[][]> = {
  ssls: [['key'], ['keys', '*']],
  upstreams: [['tls', 'client_key']],
  routes: [['upstream', 'tls', 'client_key']],
  services: [['upstream', 'tls', 'client_key']],
  stream_routes: [['upstream', 'tls', 'client_key']],
  secrets: [['token'], ['secret_access_key'], ['session_token'], ['access_key_id'], ['auth_config', 'private_key']],
};
/** Credential fields of consumers' plugins that are secret even where a build does not list them. */
const OF_CREDENTIALS = ['key', 'secret', 'password', 'secret_key', 'private_key'];

/** Texts that name a secret instead of holding it. */
const REFERENCE = /^\$(secret|env|ENV|file):\/\//;

export function isReference(value: unknown): boolean {
  return typeof value === 'string' && REFERENCE.test(value);
}

/** The pointers of the secrets that a document holds. */
export function secretPointers(kind: string, document: Json, plugins: Readonly<Record<string, PluginInfo>>): string[] {
  const patterns = [...(OF_KINDS[kind] ?? [])];
  const configured = isObject(document) && isObject(document.plugins) ? document.plugins : {};
  for (const name of Object.keys(configured)) {
    const schema = pluginSchema(plugins[name], kind);
    const listed = Array.isArray(schema?.encrypt_fields) ? schema.encrypt_fields.map(String) : [];
    for (const field of listed) patterns.push(['plugins', name, ...field.split('.')]);
    if (kind === 'consumers' || kind === 'credentials') {
      for (const field of OF_CREDENTIALS) patterns.push(['plugins', name, field]);
    }
  }
  const found = new Set<string>();
  for (const pattern of patterns) walk(document, pattern, [], found);
  return [...found];
}

function walk(value: Json | undefined, pattern: readonly string[], path: (string | number)[], found: Set<string>): void {
  const [token, ...rest] = pattern;
  if (token === undefined) {
    if (typeof value === 'string' && value !== '' && !isReference(value)) found.add(pointerOf(path));
    return;
  }
  if (Array.isArray(value)) {
    // A dotted path of a schema passes through the items of a list without naming them.
    const inner = token === '*' ? rest : pattern;
    value.forEach((item, index) => walk(item, inner, [...path, index], found));
  } else if (isObject(value)) {
    if (token === '*') Object.entries(value).forEach(([key, item]) => walk(item, rest, [...path, key], found));
    else if (Object.hasOwn(value, token)) walk(value[token], rest, [...path, token], found);
  }
}

/** A document with its secrets masked, and the masked values by pointer. */
export interface Masked {
  document: Json;
  kept: ReadonlyMap<string, Json>;
}

export function mask(kind: string, document: Json, plugins: Readonly<Record<string, PluginInfo>>): Masked {
  const kept = new Map<string, Json>();
  let masked = document;
  for (const pointer of secretPointers(kind, document, plugins)) {
    const value = valueAt(document, pointer);
    if (value === undefined) continue;
    // A secret that the instance hides is sent back as `(hidden)`, which stands there for the stored one.
    kept.set(pointer, value);
    masked = withValue(masked, pointer, HIDDEN);
  }
  return { document: masked, kept };
}

/** The document with the masked values put back where `(hidden)` still stands. */
export function unmask(document: Json, kept: ReadonlyMap<string, Json>): Json {
  let out = document;
  for (const [pointer, value] of kept) {
    if (valueAt(out, pointer) === HIDDEN) out = withValue(out, pointer, value);
  }
  return out;
}

/** The pointers where `(hidden)` stands for nothing, because no stored value is at that place. */
export function unknownSecrets(document: Json, kept: ReadonlyMap<string, Json>): string[] {
  const found: string[] = [];
  const visit = (value: Json, path: (string | number)[]) => {
    if (value === HIDDEN && !kept.has(pointerOf(path))) found.push(pointerOf(path));
    else if (Array.isArray(value)) value.forEach((item, index) => visit(item, [...path, index]));
    else if (isObject(value)) Object.entries(value).forEach(([key, item]) => visit(item, [...path, key]));
  };
  visit(document, []);
  return found;
}

/** An older form whose hidden fields take what the current form has there, because their old values are not told. */
export function fillHidden(older: Json, current: Json | undefined): Json {
  if (older === HIDDEN) return current ?? HIDDEN;
  if (Array.isArray(older)) return older.map((item, index) => fillHidden(item, Array.isArray(current) ? current[index] : undefined));
  if (!isObject(older)) return older;
  return Object.fromEntries(Object.entries(older).map(([key, item]) => [key, fillHidden(item, isObject(current) && Object.hasOwn(current, key) ? current[key] : undefined)]));
}

/** A document that may be kept in the tab's storage: typed secrets are left out. */
export function withoutSecrets(kind: string, document: Json, plugins: Readonly<Record<string, PluginInfo>>): Json {
  return secretPointers(kind, document, plugins).reduce<Json>((current, pointer) => {
    return valueAt(current, pointer) === HIDDEN ? current : withValue(current, pointer, undefined);
  }, document);
}

/** A fresh key of 32 letters and digits from the browser's random numbers; about 190 bits. */
export function freshKey(length = 32): string {
  const letters = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789';
  const out: string[] = [];
  // Bytes above the largest multiple are drawn again, so that every letter is equally likely.
  const most = 256 - (256 % letters.length);
  while (out.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length * 2))) {
      if (byte < most && out.length < length) out.push(letters[byte % letters.length] as string);
    }
  }
  return out.join('');
}

export type { JsonObject };
