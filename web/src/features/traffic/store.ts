/** Records of the stream in memory: the newest 5,000, of these 200 with their timelines; counts of the last minute. */
import type { RequestRecord, TapCount } from '../../api/types';

export const MAX_RECORDS = 5_000;
export const MAX_TIMELINES = 200;
const SECONDS = 60;

export interface Second {
  ok: number;
  client: number;
  server: number;
}

export interface Snapshot {
  /** Newest first. */
  records: RequestRecord[];
  count: TapCount | null;
  /** Records of each of the last sixty seconds by class, oldest first. */
  bars: Second[];
}

/** Newest records first. A paused view keeps what it shows, while new records wait. */
export class TapStore {
  private records: RequestRecord[] = [];
  private bars = new Map<number, Second>();
  private count: TapCount | null = null;
  private ids = new Set<string>();

  add(record: RequestRecord): void {
    if (this.ids.has(record.id)) return;
    this.ids.add(record.id);
    this.records.unshift(record);
    // Records of several workers come nearly, not quite, in the order of time.
    let at = 0;
    while (at + 1 < this.records.length && at < 64 && this.records[at]!.t_ms < this.records[at + 1]!.t_ms) {
      [this.records[at], this.records[at + 1]] = [this.records[at + 1]!, this.records[at]!];
      at += 1;
    }
    if (this.records.length > MAX_TIMELINES) {
      const old = this.records[MAX_TIMELINES]!;
      if (old.spans.length > 0) this.records[MAX_TIMELINES] = { ...old, spans: [] };
    }
    while (this.records.length > MAX_RECORDS) this.ids.delete(this.records.pop()!.id);
    const second = Math.floor(record.t_ms / 1000);
    const bar = this.bars.get(second) ?? { ok: 0, client: 0, server: 0 };
    bar[record.status >= 500 ? 'server' : record.status >= 400 ? 'client' : 'ok'] += 1;
    this.bars.set(second, bar);
    if (this.bars.size > SECONDS * 2) {
      for (const key of this.bars.keys()) if (key < second - SECONDS) this.bars.delete(key);
    }
  }

  tell(count: TapCount): void {
    this.count = count;
  }

  clear(): void {
    this.records = [];
    this.ids.clear();
    this.bars.clear();
    this.count = null;
  }

  /** A copy that does not change; `nowMs` places the last second of the bars. */
  snapshot(nowMs: number): Snapshot {
    const last = Math.floor(nowMs / 1000);
    const bars = Array.from({ length: SECONDS }, (_, at) => this.bars.get(last - SECONDS + 1 + at) ?? { ok: 0, client: 0, server: 0 });
    return { records: [...this.records], count: this.count, bars };
  }
}

/** A record is slow when it takes longer than this; the design's filter is `took:>200ms`. */
export const SLOW_US = 200_000;

export interface Classes { server: number; client: number; slow: number }

export function classes(records: RequestRecord[]): Classes {
  const out = { server: 0, client: 0, slow: 0 };
  for (const record of records) {
    if (record.status >= 500) out.server += 1;
    else if (record.status >= 400) out.client += 1;
    if (record.total_us > SLOW_US) out.slow += 1;
  }
  return out;
}
