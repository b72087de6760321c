import { describe, expect, it } from 'vitest';
import { parseSearch, writeSearch } from '../../app/url';
import { KINDS } from './kinds';
import type { Kind } from './kinds/types';
import { fieldOf, nextSort, readList, withField, withoutField, writeColumns, writeSelected } from './listState';
import { documentOf, memberOf, setOf } from './sets';

const routes = KINDS.routes as Kind;

describe('the address of a list', () => {
  it('view_comes_back_from_its_address', () => {
    const text = writeSearch({ q: 'plugin:limit-count host:*shop.example', sort: '-rps', cols: 'state,name,match,labels', sel: 'a,b%2Fc', peek: 'shop' });
    const list = readList(routes, parseSearch(text.slice(1)));
    expect(list.q).toBe('plugin:limit-count host:*shop.example');
    expect(list.sort).toBe('-rps');
    expect(list.columns.map((column) => column.id)).toEqual(['state', 'name', 'match', 'labels']);
    expect(list.selected).toEqual(['a', 'b/c']);
    expect(list.peek).toBe('shop');
  });
  it('wrong_parameters_leave_the_defaults', () => {
    const list = readList(routes, { sort: 'nonsense', cols: 'none', sel: '%E0%A4%A' });
    expect(list.sort).toBe('name');
    expect(list.columns.map((column) => column.id)).toEqual(['state', 'name']);
    expect(list.selected).toEqual(['%E0%A4%A']);
  });
  it('usual_columns_are_not_written', () => {
    const usual = routes.columns.filter((column) => !column.extra).map((column) => column.id);
    expect(writeColumns(routes, usual)).toBeNull();
    expect(writeColumns(routes, ['rps'])).toBe('state,name,rps');
  });
  it('large_selections_stay_out_of_the_address', () => {
    expect(writeSelected(new Set(Array.from({ length: 21 }, (_, at) => String(at))))).toBeNull();
    expect(writeSelected(new Set(['a,b']))).toBe('a%2Cb');
  });
  it('sorts_begin_with_the_largest_figure', () => {
    const rps = routes.columns.find((column) => column.id === 'rps');
    const name = routes.columns.find((column) => column.id === 'name');
    expect(rps && nextSort('name', rps)).toBe('-rps');
    expect(rps && nextSort('-rps', rps)).toBe('rps');
    expect(name && nextSort('-rps', name)).toBe('name');
  });
  it('columns_sort_or_have_no_arrow', () => {
    const known = ['id', 'name', 'state', 'priority', 'updated_ms', 'created_ms', 'rps', 'p5xx', 'p99_us', 'not_after_ms', 'nodes', 'used_by'];
    for (const kind of Object.values(KINDS)) for (const column of kind.columns) if (column.sort) expect(known, `${kind.kind} ${column.id}`).toContain(column.sort);
  });
});

describe('fields of a query', () => {
  it('field_is_set_once', () => {
    expect(withField('shop state:out -label:x', 'state', 'off')).toBe('shop -label:x state:off');
    expect(withField('', 'label', 'team:a b')).toBe('label:"team:a b"');
    expect(withField('a state:out', 'state', null)).toBe('a');
  });
  it('quoted_words_stay_whole', () => {
    expect(withoutField('name:"a b" state:out', 'state')).toBe('name:"a b"');
    expect(fieldOf('name:"a b"', 'name')).toBe('a b');
  });
});

describe('sets of objects', () => {
  it('server_fields_stay_out_of_the_document', () => {
    expect(documentOf({ id: '1', uri: '/a', create_time: 1, update_time: 2 }, 'routes')).toEqual({ uri: '/a' });
  });
  it('members_have_their_id_where_the_kind_wants_it', () => {
    expect(memberOf('consumers', 'ana', { plugins: {} })).toEqual({ username: 'ana', plugins: {} });
    expect(setOf('consumers', 'ana/credentials/one', { plugins: {} })).toEqual({ consumers: [{ id: 'ana/credentials/one', plugins: {} }] });
    expect(memberOf('routes', 'a', { uri: '/' })).toEqual({ id: 'a', uri: '/' });
  });
});
