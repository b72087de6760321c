/** A schema as the rows of a table: one field a row, inner fields below their object. */
import { isObject, type Json, type JsonObject } from '../../forms/json';
import { flatten } from '../../forms/shape';

export interface SchemaRow {
  path: string;
  type: string;
  needed: boolean;
  fallback: string;
  rule: string;
  text: string;
  secret: boolean;
}

/** Deepest fields that get a row; deeper ones are described by their object. */
const MOST_DEPTH = 4;
/** Most rows, so that a schema with an upstream inside stays a page. */
const MOST_ROWS = 250;

export function schemaRows(schema: Json): SchemaRow[] {
  const rows: SchemaRow[] = [];
  if (isObject(schema)) collect(schema, '', 0, secretsOf(schema), rows);
  return rows;
}

function secretsOf(schema: JsonObject): ReadonlySet<string> {
  return new Set(Array.isArray(schema.encrypt_fields) ? schema.encrypt_fields.map(String) : []);
}

function collect(schema: JsonObject, prefix: string, depth: number, secrets: ReadonlySet<string>, rows: SchemaRow[]): void {
  const whole = flatten(schema, undefined);
  const properties = isObject(whole.properties) ? whole.properties : {};
  const required = new Set(Array.isArray(whole.required) ? whole.required.map(String) : []);
  for (const [name, raw] of Object.entries(properties)) {
    if (rows.length >= MOST_ROWS || !isObject(raw) || (name === '_meta' && depth === 0)) continue;
    const part = flatten(raw, undefined);
    const path = prefix ? `${prefix}.${name}` : name;
    rows.push({
      path, type: typeOf(part), needed: required.has(name), secret: secrets.has(path.replace(/\[\]/g, '')),
      fallback: part.default === undefined ? '' : JSON.stringify(part.default), rule: ruleOf(part), text: typeof part.description === 'string' ? part.description : '',
    });
    if (depth >= MOST_DEPTH) continue;
    if (isObject(part.properties)) collect(part, path, depth + 1, secrets, rows);
    else if (isObject(part.items) && isObject(flatten(part.items, undefined).properties)) collect(part.items, `${path}[]`, depth + 1, secrets, rows);
  }
}

function typeOf(part: JsonObject): string {
  const variants = (part.oneOf ?? part.anyOf) as Json[] | undefined;
  if (part.type === undefined && variants) return [...new Set(variants.filter(isObject).map(typeOf))].join(' or ');
  if (Array.isArray(part.type)) return part.type.map(String).join(' or ');
  if (part.type === 'array') return isObject(part.items) ? `list of ${typeOf(part.items)}` : 'list';
  if (Array.isArray(part.enum) && part.type === undefined) return 'string';
  return typeof part.type === 'string' ? part.type : 'any';
}

function ruleOf(part: JsonObject): string {
  const rules: string[] = [];
  if (Array.isArray(part.enum)) rules.push(part.enum.map((one) => String(one)).join(' | '));
  if (typeof part.minimum === 'number' || typeof part.maximum === 'number') rules.push(`${part.minimum ?? ''}…${part.maximum ?? ''}`);
  if (typeof part.exclusiveMinimum === 'number') rules.push(`> ${part.exclusiveMinimum}`);
  if (typeof part.minLength === 'number' && part.minLength > 1) rules.push(`at least ${part.minLength} characters`);
  if (typeof part.pattern === 'string') rules.push(typeof part.$comment === 'string' ? part.$comment : part.pattern.length < 40 ? part.pattern : 'has a pattern');
  return rules.join(', ');
}
