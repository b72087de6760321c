import { describe, expect, it } from 'vitest';
import { applyPatch, fieldChanges, patchOf, withValue } from './document';
import { equal, pointerOf, tokensOf, type Json } from './json';
import { isResolved, merge, resolve } from './merge';
import { locateJson, pointerAt, rangeOf } from './locate';
import { parseJson, renderJson, smallestEdit } from './jsonText';
import { jsonTools } from './syntax';
import { yamlTools } from './yamlText';
import { distance, nearest } from './nearest';
import { fillHidden, mask, secretPointers, unknownSecrets, unmask, withoutSecrets } from './secrets';

/** A small generator of documents, so that the properties are tried on many. */
function documents(count: number): Json[] {
  let state = 7;
  const random = (below: number) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state % below;
  };
  const names = ['a', 'b/c', '~d', '', '1', 'plugins', '<script>alert(1)</script>'];
  const value = (depth: number): Json => {
    const pick = random(depth > 3 ? 5 : 7);
    if (pick === 0) return null;
    if (pick === 1) return random(2) === 1;
    if (pick === 2) return random(1000) - 500;
    if (pick === 3) return names[random(names.length)] as string;
    if (pick === 4) return 'text with "quotes"\nand lines';
    if (pick === 5) return Array.from({ length: random(4) }, () => value(depth + 1));
    return Object.fromEntries(Array.from({ length: random(5) }, () => [names[random(names.length)], value(depth + 1)])) as Json;
  };
  return Array.from({ length: count }, () => ({ root: value(0), other: value(1) }));
}

describe('patches', () => {
  it('patch_of_two_documents_makes_the_second', () => {
    const all = documents(200);
    all.forEach((before, index) => {
      const after = all[(index * 7 + 3) % all.length] as Json;
      expect(equal(applyPatch(before, patchOf(before, after)), after)).toBe(true);
    });
  });
  it('equal_documents_have_an_empty_patch', () => {
    for (const document of documents(50)) expect(patchOf(document, JSON.parse(JSON.stringify(document)) as Json)).toEqual([]);
  });
  it('patch_refuses_a_prototype_key', () => {
    expect(() => applyPatch({}, [{ op: 'add', path: '/__proto__', value: { x: 1 } }])).toThrow();
  });
  it('patch_of_a_missing_place_fails', () => {
    expect(() => applyPatch({ a: 1 }, [{ op: 'replace', path: '/b/c', value: 1 }])).toThrow();
  });
  it('field_changes_name_both_sides', () => {
    expect(fieldChanges({ uri: '/a', keep: 1, old: 2 }, { uri: '/b', keep: 1, fresh: [1] })).toEqual([
      { pointer: '/old', before: 2 },
      { pointer: '/uri', before: '/a', after: '/b' },
      { pointer: '/fresh', after: [1] },
    ]);
  });
  it('with_value_creates_and_removes', () => {
    expect(withValue({}, '/a/b', 1)).toEqual({ a: { b: 1 } });
    expect(withValue({ a: { b: 1, c: 2 } }, '/a/b', undefined)).toEqual({ a: { c: 2 } });
  });
  it('pointers_round_trip_odd_names', () => {
    const path = ['a/b', '~', '', '0'];
    expect(tokensOf(pointerOf(path))).toEqual(path);
  });
});

describe('merge', () => {
  const base = { uri: '/a', desc: 'x', plugins: { p: { count: 1, window: 60 } }, methods: ['GET'] };
  it('one_sided_changes_merge_by_themselves', () => {
    const found = merge(base, { ...base, uri: '/b' }, { ...base, desc: 'y' });
    expect(found.clashes).toEqual([]);
    expect(found.merged).toEqual({ ...base, uri: '/b', desc: 'y' });
  });
  it('same_change_on_both_sides_is_no_clash', () => {
    expect(merge(base, { ...base, uri: '/b' }, { ...base, uri: '/b' }).clashes).toEqual([]);
  });
  it('clash_keeps_both_until_chosen', () => {
    const found = merge(base, { ...base, uri: '/t' }, { ...base, uri: '/m', desc: 'y' });
    expect(found.clashes).toEqual([{ pointer: '/uri', base: '/a', theirs: '/t', mine: '/m' }]);
    expect(isResolved(found, {})).toBe(false);
    expect(resolve(found, { '/uri': 'mine' })).toEqual({ ...base, uri: '/m', desc: 'y' });
    expect(resolve(found, { '/uri': 'theirs' })).toEqual({ ...base, uri: '/t', desc: 'y' });
  });
  it('removal_against_inner_change_is_a_clash', () => {
    const theirs = { ...base, plugins: {} };
    const mine = { ...base, plugins: { p: { count: 2, window: 60 } } };
    const found = merge(base, theirs, mine);
    expect(found.clashes.map((clash) => clash.pointer)).toEqual(['/plugins/p']);
    expect(resolve(found, { '/plugins/p': 'mine' })).toEqual(mine);
    expect(resolve(found, { '/plugins/p': 'theirs' })).toEqual(theirs);
  });
  it('lists_changed_on_both_sides_clash_whole', () => {
    const found = merge(base, { ...base, methods: ['GET', 'PUT'] }, { ...base, methods: ['POST', 'GET'] });
    expect(found.clashes.map((clash) => clash.pointer)).toEqual(['/methods']);
  });
});

describe('places in a text', () => {
  const document: Json = { uri: '/a', plugins: { 'limit-count': { cuont: 2, 'a/b': [1, { x: null }] } } };
  it('pointers_have_their_lines_in_both_syntaxes', () => {
    for (const [syntax, tools] of Object.entries({ json: jsonTools, yaml: yamlTools })) {
      const text = tools.render(document);
      const places = tools.locate(text);
      for (const pointer of ['/uri', '/plugins/limit-count/cuont', '/plugins/limit-count/a~1b/1/x']) {
        const range = places.get(pointer);
        expect(range, `${syntax} ${pointer}`).toBeDefined();
        expect(text.slice(range?.from, range?.to)).toContain(tokensOf(pointer).at(-1)?.replace('/', '/') ?? '');
      }
      expect(tools.parse(text).document).toEqual(document);
    }
  });
  it('missing_pointer_has_its_ancestor', () => {
    const places = locateJson(renderJson(document));
    expect(rangeOf(places, '/plugins/limit-count/count')).toEqual(places.get('/plugins/limit-count'));
  });
  it('cursor_finds_its_pointer', () => {
    const text = renderJson(document);
    expect(pointerAt(locateJson(text), text.indexOf('cuont') + 2)).toBe('/plugins/limit-count/cuont');
  });
  it('mistakes_have_a_place_and_a_sentence', () => {
    const wrong = parseJson('{\n  "a": 1,\n}');
    expect(wrong.error).toContain('comma too much');
    expect(parseJson('{"a": 1 "b": 2}').error).toContain('comma may be missing');
    expect(parseJson('{"a": 1').error).toContain('ends too early');
    expect(parseJson("{'a': 1}").error).toContain('quoted');
    expect(yamlTools.parse('a: [1').error).toBeDefined();
    expect(parseJson('').error).toContain('empty');
  });
  it('deep_text_does_not_overflow', () => {
    expect(() => locateJson('['.repeat(50_000))).not.toThrow();
    expect(parseJson('['.repeat(50_000)).error).toBeDefined();
  });
  it('smallest_edit_leaves_equal_ends', () => {
    expect(smallestEdit('abcdef', 'abXdef')).toEqual({ from: 2, to: 3, insert: 'X' });
    expect(smallestEdit('same', 'same')).toBeNull();
    expect(smallestEdit('aa', 'aaa')).toEqual({ from: 2, to: 2, insert: 'a' });
  });
});

describe('names', () => {
  it('nearest_name_is_found', () => {
    expect(nearest('cuont', ['count', 'key', 'time_window'])).toBe('count');
    expect(nearest('zzzzzz', ['count'])).toBeUndefined();
    expect(distance('ab', 'ba')).toBe(1);
  });
});

describe('secrets', () => {
  const plugins = { 'limit-count': { schema: { encrypt_fields: ['redis_password'] }, priority: 1 }, 'key-auth': { schema: {}, consumer_schema: { encrypt_fields: ['key'] }, priority: 2 } };
  const route: Json = { plugins: { 'limit-count': { redis_password: 'p', count: 1 } } };
  it('masked_document_has_no_secret_and_comes_back', () => {
    const { document, kept } = mask('routes', route, plugins);
    expect(JSON.stringify(document)).not.toContain('"p"');
    expect(unmask(document, kept)).toEqual(route);
  });
  it('secret_hidden_by_the_instance_is_sent_back_hidden', () => {
    const upstream: Json = { tls: { client_cert: 'c', client_key: '(hidden)' } };
    const { document, kept } = mask('upstreams', upstream, plugins);
    expect(unknownSecrets(document, kept)).toEqual([]);
    expect(unmask(document, kept)).toEqual(upstream);
  });
  it('references_are_no_secrets', () => {
    expect(secretPointers('consumers', { plugins: { 'key-auth': { key: '$env://KEY' } } }, plugins)).toEqual([]);
    expect(secretPointers('consumers', { plugins: { 'key-auth': { key: 'abc' } } }, plugins)).toEqual(['/plugins/key-auth/key']);
    expect(secretPointers('routes', { plugins: { 'key-auth': { header: 'key' } } }, plugins)).toEqual([]);
    expect(secretPointers('ssls', { key: 'k', keys: ['a', 'b'] }, plugins)).toEqual(['/key', '/keys/0', '/keys/1']);
  });
  it('moved_mask_is_reported', () => {
    const { document, kept } = mask('routes', route, plugins);
    expect(unknownSecrets({ plugins: { other: (document as { plugins: Record<string, Json> }).plugins['limit-count'] as Json } }, kept)).toEqual(['/plugins/other/redis_password']);
  });
  it('older_form_keeps_hidden_fields_of_now', () => {
    expect(fillHidden({ a: '(hidden)', b: [{ c: '(hidden)' }], d: 1 }, { a: 'now', b: [{ c: 'x' }], d: 2 })).toEqual({ a: 'now', b: [{ c: 'x' }], d: 1 });
    expect(fillHidden({ a: '(hidden)' }, {})).toEqual({ a: '(hidden)' });
  });
  it('draft_keeps_no_typed_secret', () => {
    expect(JSON.stringify(withoutSecrets('routes', { plugins: { 'limit-count': { redis_password: 'typed' } } }, plugins))).not.toContain('typed');
  });
});
