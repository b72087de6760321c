/**
 * The shape of a schema for a form: compositions are resolved against the document, defaults become placeholders and
 * every place gets the field that edits it. The form library sees plain objects, lists and scalars only, so that it
 * never writes a default and never shows an "Option 1".
 */
import type { RJSFSchema, UiSchema } from '@rjsf/utils';
import { isObject, type Json, type JsonObject } from './json';
import { meets } from './validator';

/** A schema and the hints for the form library. */
export interface Shaped {
  schema: RJSFSchema;
  uiSchema: UiSchema;
}

/** Kinds that a field named `*_id` refers to. */
const REFERENCES: Record<string, string> = {
  upstream_id: 'upstreams',
  service_id: 'services',
  plugin_config_id: 'plugin_configs',
  group_id: 'consumer_groups',
  proto_id: 'protos',
  client_cert_id: 'ssls',
  anonymous_consumer: 'consumers',
};

/** Names of texts that take several lines. */
const LONG_TEXTS = new Set(['cert', 'ca', 'ca_certs', 'client_cert', 'crl', 'content', 'script', 'filter_func', 'body', 'model', 'policy_text', 'template', 'spec', 'functions', 'public_key', 'pre_function', 'error_response']);
/** Names of texts that are secret though no schema says so. */
const SECRETS = new Set(['key', 'client_key', 'private_key', 'password', 'secret', 'client_secret', 'token', 'redis_password', 'secret_access_key', 'session_secret']);
/** Kinds of objects where a field named `key` is no secret. */
const PLAIN_KEY_OWNERS = new Set(['limit-count', 'limit-req', 'limit-conn', 'graphql-limit-count', 'upstream', 'rules']);
/** Lists without item schema that hold expressions over variables. */
const EXPRESSIONS = new Set(['vars', 'filter', 'case', 'match', 'include_req_body_expr', 'include_resp_body_expr']);
/** A depth that no schema of the Admin API reaches. */
const MAX_DEPTH = 24;

/** Where a schema stands. */
export interface Place {
  /** The name of the field, or of the plugin at the root of its configuration. */
  name: string;
  /** The name of the object around it. */
  owner: string;
  /** Names of secret fields, from `encrypt_fields`, dotted. */
  secrets: readonly string[];
}

/** The shape of a schema for a document. */
export function shape(schema: Json | undefined, data: Json | undefined, place: Place, depth = 0): Shaped {
  if (!isObject(schema) || depth > MAX_DEPTH) return leaf({}, 'json', {});
  const merged = flatten(schema, data);
  const options: JsonObject = {};
  if (merged.default !== undefined) options.fallback = merged.default;
  const description = typeof merged.description === 'string' ? merged.description : undefined;
  const base: RJSFSchema = {};
  if (description) base.description = description;
  if (typeof merged.title === 'string' && depth === 0) base.title = merged.title;

  const reference = REFERENCES[place.name];
  if (reference && depth > 0) return leaf({ type: 'string' }, 'reference', { ...options, kind: reference });
  if (place.name === 'plugins' && merged.type === 'object' && depth === 1) return leaf({ type: 'object' }, 'plugins', { ...options, bare: true });
  if (place.name === 'nodes' && (merged.anyOf || merged.oneOf)) return leaf({ ...base, type: 'object' }, 'nodes', options);

  if (Array.isArray(merged.enum)) {
    if (place.name === 'status' && depth === 1 && merged.enum.length === 2 && merged.enum.includes(0)) return leaf({ ...base, type: 'integer', enum: [1, 0] }, 'status', options);
    const type = merged.enum.every((item) => typeof item === 'number') ? 'number' : 'string';
    return { schema: { ...base, type, enum: merged.enum as never[] }, uiSchema: { 'ui:options': options } };
  }
  if (Array.isArray(merged.oneOf) || Array.isArray(merged.anyOf)) {
    const variants = ((merged.oneOf ?? merged.anyOf) as Json[]).filter(isObject);
    if (merged.type === 'object' && isObject(merged.properties)) return objectShape(merged, data, place, depth, base, options, variants);
    return variantShape(merged, variants, data, place, depth, base, options);
  }
  return typedShape(merged, data, place, depth, base, options);
}

function typedShape(schema: JsonObject, data: Json | undefined, place: Place, depth: number, base: RJSFSchema, options: JsonObject): Shaped {
  if (Array.isArray(schema.type)) return leaf({ ...base, type: 'string' }, 'scalar', { ...options, types: schema.type });
  switch (schema.type) {
    case 'object':
      return objectShape(schema, data, place, depth, base, options, []);
    case 'array':
      return listShape(schema, data, place, depth, base, options);
    case 'boolean':
      return { schema: { ...base, type: 'boolean' }, uiSchema: { 'ui:options': options } };
    case 'integer':
    case 'number':
      for (const limit of ['minimum', 'maximum', 'exclusiveMinimum'] as const) {
        if (typeof schema[limit] === 'number') options[limit] = schema[limit];
      }
      return { schema: { ...base, type: schema.type }, uiSchema: { 'ui:options': options } };
    case 'string': {
      if (isSecret(place) || data === HIDDEN) return leaf({ ...base, type: 'string' }, 'secret', { ...options, long: isLong(schema, place) });
      const widget = isLong(schema, place) ? { 'ui:widget': 'textarea' } : {};
      return { schema: { ...base, type: 'string' }, uiSchema: { ...widget, 'ui:options': options } };
    }
    default:
      return isObject(schema.properties) ? objectShape(schema, data, place, depth, base, options, []) : leaf(base, 'json', options);
  }
}

function variantShape(schema: JsonObject, variants: JsonObject[], data: Json | undefined, place: Place, depth: number, base: RJSFSchema, options: JsonObject): Shaped {
  const types = [...new Set(variants.map((variant) => variant.type ?? schema.type))];
  const scalar = types.every((type) => typeof type === 'string' && ['string', 'integer', 'number', 'boolean'].includes(type) || type === undefined);
  if (scalar) {
    const names = types.filter((type): type is string => typeof type === 'string');
    const long = variants.some((variant) => isLong(variant, place));
    if (isSecret(place) || data === HIDDEN) return leaf({ ...base, type: 'string' }, 'secret', { ...options, long });
    if (names.length <= 1 && (names[0] ?? 'string') === 'string') {
      const widget = long ? { 'ui:widget': 'textarea' } : {};
      return { schema: { ...base, type: 'string' }, uiSchema: { ...widget, 'ui:options': options } };
    }
    return leaf({ ...base, type: 'string' }, 'scalar', { ...options, types: names });
  }
  const shaped = variants.map((variant) => ({ label: labelOf(variant), type: String(variant.type ?? 'object'), schema: variant }));
  return leaf(base, 'variants', { ...options, variants: shaped as unknown as Json, owner: place.owner, name: place.name, depth });
}

function labelOf(variant: JsonObject): string {
  if (typeof variant.title === 'string') return variant.title;
  if (variant.type === 'array') return 'list';
  if (variant.type === 'object') {
    const names = isObject(variant.properties) ? Object.keys(variant.properties) : [];
    return names.length > 0 ? names.slice(0, 3).join(', ') : 'names and values';
  }
  return variant.type === 'string' ? 'text' : String(variant.type ?? 'other');
}

function listShape(schema: JsonObject, data: Json | undefined, place: Place, depth: number, base: RJSFSchema, options: JsonObject): Shaped {
  const items = isObject(schema.items) ? flatten(schema.items, undefined) : undefined;
  if (!items || (items.type === 'array' && !items.items)) {
    return leaf({ ...base, type: 'array' }, EXPRESSIONS.has(place.name) ? 'expression' : 'json', { ...options, nested: Boolean(items) });
  }
  if (Array.isArray(items.enum)) return leaf({ ...base, type: 'array' }, 'tags', { ...options, values: items.enum });
  const scalars = (items.anyOf ?? items.oneOf) as Json[] | undefined;
  const isText = (one: JsonObject) => one.type === 'string' || (one.type === undefined && !one.properties);
  if (EXPRESSIONS.has(place.name)) return leaf({ ...base, type: 'array' }, 'expression', { ...options, nested: false });
  if (items.type === 'string' || (scalars && scalars.filter(isObject).every(isText))) {
    const long = LONG_TEXTS.has(place.name.replace(/s$/, '')) || place.name === 'keys';
    if (long) return { schema: { ...base, type: 'array', items: { type: 'string' } }, uiSchema: { 'ui:options': options, items: { 'ui:widget': 'textarea', 'ui:options': {} } } };
    return leaf({ ...base, type: 'array' }, 'tags', options);
  }
  if (items.type === 'integer' || items.type === 'number') return leaf({ ...base, type: 'array' }, 'tags', { ...options, numbers: true });
  const first = Array.isArray(data) ? data[0] : undefined;
  const inner = shape(items, undefined, { name: place.name, owner: place.name, secrets: place.secrets }, depth + 1);
  void first;
  return { schema: { ...base, type: 'array', items: inner.schema }, uiSchema: { 'ui:options': options, items: inner.uiSchema } };
}

function objectShape(schema: JsonObject, data: Json | undefined, place: Place, depth: number, base: RJSFSchema, options: JsonObject, variants: JsonObject[]): Shaped {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const names = Object.keys(properties);
  if (names.length === 0 && depth > 0) {
    const values = valuesOf(schema);
    const simple = isObject(data) ? Object.values(data).every((value) => !isObject(value) && !Array.isArray(value)) : true;
    const kind = isScalarSchema(values) || (values === undefined && simple && MAPS.has(place.name)) ? 'map' : 'json';
    const types = values && kind === 'map' ? scalarTypes(values) : ['string', 'number', 'boolean'];
    return leaf({ ...base, type: 'object' }, simple ? kind : 'json', { ...options, types });
  }
  const required = new Set(Array.isArray(schema.required) ? schema.required.map(String) : []);
  const out: RJSFSchema = { ...base, type: 'object', properties: {} };
  const uiSchema: UiSchema = {};
  const encrypted = Array.isArray(schema.encrypt_fields) ? schema.encrypt_fields.map(String) : undefined;
  for (const name of names) {
    const inherited = (encrypted ?? place.secrets).flatMap((path) => path.startsWith(`${place.name}.`) && depth > 0 ? [path.slice(place.name.length + 1)] : [path]);
    const value = isObject(data) && Object.hasOwn(data, name) ? data[name] : undefined;
    const inner = shape(properties[name], value, { name, owner: depth === 0 ? place.owner : place.name, secrets: inherited }, depth + 1);
    (out.properties as Record<string, RJSFSchema>)[name] = inner.schema;
    const hints = (inner.uiSchema['ui:options'] ?? {}) as JsonObject;
    uiSchema[name] = { ...inner.uiSchema, 'ui:options': required.has(name) ? { ...hints, needed: true } : hints };
  }
  const choices = variants.map((variant) => variant.required).filter((list): list is Json[] => Array.isArray(list));
  if (choices.length > 1 && choices.length === variants.filter((variant) => !variant.not).length) options.choices = choices;
  uiSchema['ui:options'] = options;
  return { schema: out, uiSchema };
}

/** Free objects that hold names and values. */
const MAPS = new Set(['labels', 'headers', 'log_format', 'log_format_extra', 'global_tag', 'authorization_params', 'extra_labels', 'extra_headers', 'metadata']);

function valuesOf(schema: JsonObject): JsonObject | undefined {
  if (isObject(schema.additionalProperties)) return schema.additionalProperties;
  const patterns = isObject(schema.patternProperties) ? Object.values(schema.patternProperties) : [];
  return patterns.length === 1 && isObject(patterns[0]) ? patterns[0] : undefined;
}

function scalarTypes(schema: JsonObject): string[] {
  if (Array.isArray(schema.type)) return schema.type.map(String);
  if (typeof schema.type === 'string') return [schema.type];
  const variants = (schema.oneOf ?? schema.anyOf) as Json[] | undefined;
  return (variants ?? []).filter(isObject).flatMap(scalarTypes);
}

function isScalarSchema(schema: JsonObject | undefined): boolean {
  if (!schema) return false;
  const types = scalarTypes(schema);
  return types.length > 0 && types.every((type) => ['string', 'integer', 'number', 'boolean'].includes(type));
}

/** A schema with its `allOf` parts, the branch of `if` that the data takes, and dependent schemas in one object. */
export function flatten(schema: JsonObject, data: Json | undefined): JsonObject {
  let merged: JsonObject = { ...schema };
  const parts: Json[] = Array.isArray(schema.allOf) ? [...schema.allOf] : [];
  if (isObject(schema.if)) {
    const taken = data === undefined ? undefined : meets(schema.if, data);
    if (taken !== false && isObject(schema.then)) parts.push(taken === undefined ? withoutRequired(schema.then) : schema.then);
    if (taken !== true && isObject(schema.else)) parts.push(taken === undefined ? withoutRequired(schema.else) : schema.else);
  }
  if (isObject(schema.dependentSchemas)) {
    for (const [name, part] of Object.entries(schema.dependentSchemas)) {
      if (isObject(data) && Object.hasOwn(data, name)) parts.push(part);
    }
  }
  for (const key of ['allOf', 'if', 'then', 'else', 'dependentSchemas', 'not']) delete merged[key];
  for (const part of parts.filter(isObject)) merged = join(merged, flatten(part, data));
  // Branches of a root choice may declare fields of their own.
  for (const key of ['oneOf', 'anyOf']) {
    const branches = merged[key];
    if (!Array.isArray(branches) || merged.type !== 'object') continue;
    for (const branch of branches.filter(isObject)) {
      if (isObject(branch.properties) && (branch.type === undefined || branch.type === 'object')) {
        merged = join(merged, { properties: branch.properties });
      }
    }
  }
  return merged;
}

function withoutRequired(schema: JsonObject): JsonObject {
  const { required: _required, ...rest } = schema;
  return rest;
}

function join(a: JsonObject, b: JsonObject): JsonObject {
  const out: JsonObject = { ...b, ...a };
  if (isObject(a.properties) || isObject(b.properties)) {
    const [left, right] = [isObject(a.properties) ? a.properties : {}, isObject(b.properties) ? b.properties : {}];
    const both: JsonObject = { ...right, ...left };
    out.properties = both;
  }
  if (Array.isArray(a.required) || Array.isArray(b.required)) {
    out.required = [...new Set([...(Array.isArray(a.required) ? a.required : []), ...(Array.isArray(b.required) ? b.required : [])])];
  }
  return out;
}

/** The text that the server writes in place of a secret. */
export const HIDDEN = '(hidden)';

function isSecret(place: Place): boolean {
  if (place.secrets.includes(place.name)) return true;
  if (place.name === 'key') return place.owner === 'ssls' || place.owner === 'key-auth.consumer' || (SECRETS.has('key') && place.owner === 'credential');
  return SECRETS.has(place.name) && !PLAIN_KEY_OWNERS.has(place.owner);
}

function isLong(schema: JsonObject, place: Place): boolean {
  return LONG_TEXTS.has(place.name) || (place.name === 'key' && place.owner === 'ssls') || (typeof schema.maxLength === 'number' && schema.maxLength > 10_000 && place.owner === 'ssls');
}

function leaf(schema: RJSFSchema, field: string, options: JsonObject): Shaped {
  // A type is needed by the form library; the field decides by the value itself.
  const typed: RJSFSchema = schema.type ? schema : { ...schema, type: 'string' };
  return { schema: typed, uiSchema: { 'ui:field': field, 'ui:options': { label: true, ...options } } };
}
