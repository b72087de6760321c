import { describe, expect, it } from 'vitest';
import type { Overview } from '../../api/types';
import { SERIES, change, cut, faultShares, totals } from './data';

function overview(points: number): Overview {
  const series = Object.fromEntries(SERIES.map((name) => [name, Array.from({ length: points }, (_, at) => at)])) as Overview['series'];
  return { seq: 1, step_ms: 10_000, end_ms: 1_000_000, series, now: {} as Overview['now'], marks: [{ revision: 2, at_ms: 995_000, by: null }, { revision: 1, at_ms: 10, by: null }], attention: [], workers: [], revision: 2 };
}

describe('overview series', () => {
  it('range keeps the newest points and their times', () => {
    const view = cut(overview(360), 15);
    expect(view.times).toHaveLength(90);
    expect(view.times.at(-1)).toBe(1_000_000);
    expect(view.series.cpu[0]).toBe(270);
  });
  it('young ring begins where data begins', () => {
    expect(cut(overview(4), 60).times).toEqual([970_000, 980_000, 990_000, 1_000_000]);
  });
  it('marks outside the range are left out', () => {
    expect(cut(overview(60), 15).marks.map((mark) => mark.revision)).toEqual([2]);
  });
  it('totals and shares are of the same points', () => {
    const view = cut(overview(3), 15);
    expect(totals(view)).toEqual([0, 4, 8]);
    expect(faultShares(view)).toEqual([0, 25, 25]);
  });
  it('unknown points stay unknown', () => {
    const view = cut(overview(1), 15);
    view.series.req_2xx = [null];
    view.series.req_3xx = [null];
    view.series.req_4xx = [null];
    view.series.req_5xx = [null];
    expect(totals(view)).toEqual([null]);
    expect(faultShares(view)).toEqual([null]);
  });
  it('change needs enough points', () => {
    expect(change([1, 2, 3])).toBeNull();
    expect(change([...Array(6).fill(100), ...Array(6).fill(104)])).toBeCloseTo(4);
  });
});
