// @vitest-environment jsdom
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { MantineProvider } from '@mantine/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { check } from './validator';
import { FormContext } from './env';
import { conditionOf, rowOf } from './fields/ExpressionField';
import { nodeRows, nodesOf } from './fields/NodesField';
import { readScalar } from './fields/scalars';
import { isObject, type Json, type JsonObject } from './json';
import { SchemaForm } from './SchemaForm';
import { shape } from './shape';

/** The schemas that the Admin API documents, with references resolved. */
const served = JSON.parse(readFileSync(resolve(import.meta.dirname, '../../../docs/reference/openapi.json'), 'utf8')) as { components: { schemas: Record<string, Json> } };
const schemas = served.components.schemas;

function resolved(value: Json, depth = 0): Json {
  if (Array.isArray(value)) return value.map((item) => resolved(item, depth));
  if (!isObject(value) || depth > 12) return value;
  if (typeof value.$ref === 'string') {
    const name = value.$ref.split('/').at(-1) as string;
    return name === 'Plugins' || name.endsWith('Plugins') ? {} : resolved(schemas[name] as Json, depth + 1);
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolved(item, depth)]));
}

const names = Object.keys(schemas).filter((name) => name.startsWith('plugin.') || ['Route', 'Upstream', 'Service', 'Ssl', 'Consumer', 'Credential', 'StreamRoute', 'Proto', 'GlobalRule', 'PluginConfig', 'ConsumerGroup', 'SecretVault', 'SecretAws', 'SecretGcp'].includes(name));

beforeAll(() => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  Object.assign(window, { matchMedia: () => ({ matches: false, addEventListener() {}, removeEventListener() {}, addListener() {}, removeListener() {} }) });
  Object.defineProperty(window.document, 'fonts', { value: { addEventListener() {}, removeEventListener() {} } });
  Object.assign(globalThis, { ResizeObserver: class { observe() {} unobserve() {} disconnect() {} } });
});

function mount(schema: Json, document: Json, onChange: (next: Json) => void, name = 'x') {
  const host = window.document.createElement('div');
  window.document.body.append(host);
  const root = createRoot(host);
  const env = { kind: 'routes', faults: [], base: '', readOnly: false, draft: 'test', plugins: {}, facts: new Map(), candidates: () => Promise.resolve([]), linkTo: () => '/' };
  act(() => root.render(
    <MantineProvider><FormContext.Provider value={env}><SchemaForm schema={schema} document={document} onChange={onChange} name={name} idPrefix="t" /></FormContext.Provider></MantineProvider>,
  ));
  return { host, close: () => act(() => root.unmount()) };
}

/** A document that a schema admits, or nearly: one value for each of some fields. */
function sample(schema: Json, depth = 0): Json {
  if (!isObject(schema) || depth > 6) return 'x';
  if (Array.isArray(schema.enum)) return schema.enum[0] as Json;
  const variant = (schema.oneOf ?? schema.anyOf) as Json[] | undefined;
  if (schema.type === undefined && variant) return sample(variant[depth % variant.length] as Json, depth + 1);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === 'object') {
    const out: JsonObject = {};
    for (const [name, part] of Object.entries(isObject(schema.properties) ? schema.properties : {})) out[name] = sample(part, depth + 1);
    if (Object.keys(out).length === 0) out['x-name'] = 'value';
    return out;
  }
  if (type === 'array') return schema.items ? [sample(schema.items, depth + 1)] : [['arg_a', '==', 'b']];
  if (type === 'integer') return 3;
  if (type === 'number') return 1.5;
  if (type === 'boolean') return true;
  return 'text';
}

describe('forms of every schema', () => {
  it('schemas_are_there', () => expect(names.length).toBeGreaterThan(100));
  it('every_schema_becomes_plain', () => {
    for (const name of names) {
      const schema = resolved(schemas[name] as Json);
      for (const document of [{}, sample(schema)] as Json[]) {
        const made = JSON.stringify(shape(schema, document, { name, owner: name, secrets: [] }).schema);
        expect(made, name).not.toMatch(/"(oneOf|anyOf|allOf|dependentSchemas)":[[{]/);
      }
    }
  });
  it('opening_a_form_changes_nothing', () => {
    // Drawing is slow without a browser, so every fifth plugin and the route stand for all; the shapes of all are checked above.
    const drawn = names.filter((name, index) => index % 5 === 0 || name === 'Route');
    for (const [index, name] of drawn.entries()) {
      const schema = resolved(schemas[name] as Json);
      const odd: Json = { strange: { a: [1] }, _meta: { filter: [['arg_a', '==', 'b']], priority: 3 } };
      for (const document of index % 8 === 0 ? [{}, odd, sample(schema)] : [sample(schema)]) {
        const changes: Json[] = [];
        const { host, close } = mount(schema, document, (next) => changes.push(next), name.replace('plugin.', ''));
        expect(changes, name).toEqual([]);
        expect(host.textContent, name).not.toMatch(/Unsupported|Unknown field type|Option 1/);
        close();
      }
    }
  }, 120_000);
  it('typing_changes_one_field_only', () => {
    const schema = resolved(schemas['plugin.limit-count'] as Json);
    const before: Json = { count: '${http_x}', time_window: 60, strange: [1, { a: 2 }], _meta: { filter: [['arg_a', '==', '1']] } };
    const changes: Json[] = [];
    const { host, close } = mount(schema, before, (next) => changes.push(next), 'limit-count');
    const input = host.querySelector<HTMLInputElement>('[id="t/time_window"]');
    expect(input?.value).toBe('60');
    act(() => {
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set?.call(input, '90');
      input?.dispatchEvent(new Event('input', { bubbles: true }));
    });
    expect(changes).toEqual([{ ...before as JsonObject, time_window: 90 }]);
    close();
  });
  it('markup_in_values_stays_text', () => {
    const schema = resolved(schemas.Route as Json);
    const bad = '<script>alert(1)</script><img src=x onerror=alert(1)>';
    const { host, close } = mount(schema, { name: bad, desc: bad, hosts: [bad], labels: { [bad]: bad }, vars: [[bad, '==', bad]], plugins: {} }, () => undefined, '');
    expect(host.querySelector('script, img')).toBeNull();
    close();
  });
});

describe('checks', () => {
  const schema = resolved(schemas['plugin.limit-count'] as Json) as object;
  it('faults_are_at_their_fields', () => {
    expect(check(schema, { count: 1, time_window: -1 })).toContainEqual(expect.objectContaining({ pointer: '/time_window' }));
    expect(check(schema, { count: 1 }).map((fault) => fault.reason).join()).toContain('needs one of these');
    expect(check(schema, { count: 1, time_window: 60, rejected_code: 'x' })).toEqual([{ pointer: '/rejected_code', reason: 'expected a whole number, found a text' }]);
  });
  it('unknown_field_names_its_neighbour', () => {
    const timeout = { type: 'object', properties: { connect: { type: 'number' } }, additionalProperties: false };
    expect(check(timeout, { conect: 1 })).toEqual([{ pointer: '/conect', reason: 'unknown field; did you mean connect?' }]);
  });
  it('missing_field_is_at_its_own_place', () => {
    expect(check({ type: 'object', required: ['a/b'] }, {})).toEqual([{ pointer: '/a~1b', reason: 'is required' }]);
  });
  it('conditions_follow_the_document', () => {
    const made = shape(schema as Json, { policy: 'redis', count: 1, time_window: 1 }, { name: 'limit-count', owner: 'limit-count', secrets: [] });
    const options = (made.uiSchema.redis_host as { 'ui:options': JsonObject })['ui:options'];
    expect(options.needed).toBe(true);
    const local = shape(schema as Json, { count: 1, time_window: 1 }, { name: 'limit-count', owner: 'limit-count', secrets: [] });
    expect((local.uiSchema.redis_host as { 'ui:options': JsonObject })['ui:options'].needed).toBeUndefined();
  });
});

describe('rows', () => {
  it('nodes_round_trip_in_both_forms', () => {
    const map = { '10.0.0.1:80': 1, '[::1]:80': 2, 'a.example': 0 };
    expect(nodesOf(nodeRows(map), false)).toEqual(map);
    const list: Json = [{ host: '10.0.0.1', port: 80, weight: 1, priority: -1, metadata: { zone: 'a' } }, { host: 'b.example', weight: 2 }];
    expect(nodesOf(nodeRows(list), true)).toEqual(list);
  });
  it('conditions_round_trip', () => {
    for (const row of [['arg_a', '==', 'b'], ['http_x', '!', 'in', ['a', 'b']], ['arg_n', '>', 3]] as Json[]) {
      const condition = conditionOf(row);
      expect(condition && rowOf(condition)).toEqual(row);
    }
    expect(conditionOf(['OR', ['a', '==', 'b']])).toBeNull();
  });
  it('typed_scalars_keep_their_type', () => {
    expect(readScalar('12', ['integer', 'string'])).toBe(12);
    expect(readScalar('${http_x}', ['integer', 'string'])).toBe('${http_x}');
    expect(readScalar('012', ['string'])).toBe('012');
    expect(readScalar('', ['string'])).toBeUndefined();
  });
});
