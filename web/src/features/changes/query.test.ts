import { describe, expect, it } from 'vitest';
import { QueryMistake, readCompare, readQuery, sharesAround } from './query';

describe('the filter of revisions', () => {
  it('fields_are_read', () => {
    expect(readQuery('by:ana key:routes/shop since:7d source:apply', 1_000_000_000_000)).toEqual({ by: 'ana', key: 'routes/shop', source: 'apply', since: 1_000_000_000_000 - 7 * 86_400_000 });
    expect(readQuery('deploy-bot', 0).by).toBe('deploy-bot');
    expect(readQuery('', 0)).toEqual({ by: null, key: null, source: null, since: null });
  });
  it('mistakes_have_their_place', () => {
    expect(() => readQuery('by:ana who:x', 0)).toThrow(QueryMistake);
    try {
      readQuery('by:ana since:soon', 0);
    } catch (mistake) {
      expect((mistake as QueryMistake).at).toBe(13);
    }
  });
  it('compare_takes_two_revisions', () => {
    expect(readCompare('4120..4127')).toEqual({ from: 4120, to: 4127 });
    expect(readCompare('4120')).toBeNull();
  });
});

describe('failures around a revision', () => {
  const total = Array.from({ length: 360 }, () => 100);
  it('shares_before_and_after_are_told_apart', () => {
    const failed = total.map((_, index) => (index > 200 ? 2 : 0));
    const end = 3_600_000;
    const at = end - 159 * 10_000;
    expect(sharesAround(at, end, 10_000, total, failed)).toEqual({ before: 0, after: 2, minutes: 10 });
  });
  it('times_outside_the_ring_have_none', () => {
    expect(sharesAround(0, 3_600_000, 10_000, total.slice(0, 20), total)).toBeNull();
  });
});
