import { expect, it } from 'vitest';
import type { Candidate, Step } from '../../api/explain';
import { headerChanges, isSecretHeader, lost, nearest, stepWords } from './words';

const candidate = (verdict: Candidate['verdict'], more: Partial<Candidate> = {}): Candidate => ({ id: verdict, name: null, path: '/a', host: null, verdict, by: null, ...more });
const step = (more: Partial<Step>): Step => ({ plugin: 'p', phase: 'access', from: 'route', runs: true, why: null, would: null, ...more });

it('losers have a reason', () => {
  expect(lost(candidate('method'), 'POST')).toBe('methods do not hold POST');
  expect(lost(candidate('vars', { detail: 'arg_b is not 1' }), 'GET')).toBe('arg_b is not 1');
  expect(lost(candidate('outranked', { by: 'x' }), 'GET')).toContain('x is more exact');
});
it('nearest loser is first', () => {
  const list = nearest([candidate('host'), candidate('matched'), candidate('vars'), candidate('method')], 2);
  expect(list.map((each) => each.verdict)).toEqual(['vars', 'method']);
});
it('steps say what a plugin does', () => {
  expect(stepWords(step({}))).toMatchObject({ verb: 'passes', state: 'ok' });
  expect(stepWords(step({ runs: false, why: 'off' }))).toMatchObject({ verb: 'skipped', rest: 'off' });
  expect(stepWords(step({ would: { action: 'reply', status: 401, text: 'no key' } }))).toMatchObject({ verb: 'answers 401', rest: 'no key', state: 'err' });
  expect(stepWords(step({ runs: null, would: { action: 'call', status: null, text: 'asks auth' } }))).toMatchObject({ verb: 'unknown', rest: 'asks auth' });
});
it('header changes have a sign', () => {
  expect(headerChanges([['Cookie', 'a'], ['X', '1']], [['x', '2'], ['y', '3']])).toEqual([
    { sign: '~', name: 'x', value: '2' }, { sign: '+', name: 'y', value: '3' }, { sign: '−', name: 'cookie', value: 'a' },
  ]);
});
it('credentials are hidden', () => {
  expect(['Authorization', 'cookie', 'X-Api-Key', 'x-session-token'].every(isSecretHeader)).toBe(true);
  expect(isSecretHeader('accept')).toBe(false);
});
