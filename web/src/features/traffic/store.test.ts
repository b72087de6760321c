import { describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../api/types';
import { MAX_RECORDS, MAX_TIMELINES, TapStore, classes } from './store';

function record(id: number, more: Partial<RequestRecord> = {}): RequestRecord {
  return {
    id: String(id), t_ms: 1_000_000 + id, worker: 0, revision: 1, client: '', protocol: 'HTTP/1.1', scheme: 'http', method: 'GET', host: '', path: '/',
    route: null, route_name: null, service: null, consumer: null, upstream: null, endpoint: null, status: 200, cause: null, blame: null, phase: null, detail: null,
    bytes_in: 0, bytes_out: 0, total_us: 10, gateway_us: null, upstream_us: null, attempts: 1,
    spans: [{ name: 'a', group: 'gateway', at_us: 0, us: 1, failed: false, detail: null }], ...more,
  };
}

describe('records of the tap', () => {
  it('newest record is first', () => {
    const store = new TapStore();
    for (const id of [1, 3, 2]) store.add(record(id));
    expect(store.snapshot(0).records.map((each) => each.id)).toEqual(['3', '2', '1']);
  });
  it('repeated record is kept once', () => {
    const store = new TapStore();
    store.add(record(1));
    store.add(record(1));
    expect(store.snapshot(0).records).toHaveLength(1);
  });
  it('memory is bounded', () => {
    const store = new TapStore();
    for (let id = 0; id < MAX_RECORDS + 50; id += 1) store.add(record(id));
    const { records } = store.snapshot(0);
    expect(records).toHaveLength(MAX_RECORDS);
    expect(records.filter((each) => each.spans.length > 0).length).toBeLessThanOrEqual(MAX_TIMELINES);
    expect(records[0]!.spans).toHaveLength(1);
  });
  it('bars hold the classes of each second', () => {
    const store = new TapStore();
    store.add(record(1, { t_ms: 60_000, status: 502 }));
    store.add(record(2, { t_ms: 59_500, status: 404 }));
    const { bars } = store.snapshot(60_000);
    expect(bars).toHaveLength(60);
    expect(bars.at(-1)).toEqual({ ok: 0, client: 0, server: 1 });
    expect(bars.at(-2)).toEqual({ ok: 0, client: 1, server: 0 });
  });
  it('classes count failures and slow requests', () => {
    expect(classes([record(1, { status: 503, total_us: 900_000 }), record(2, { status: 401 })])).toEqual({ server: 1, client: 1, slow: 1 });
  });
});
