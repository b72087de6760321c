/** The filter of the revisions: `by:ana`, `since:7d`, `key:routes/shop`, `source:apply`; other words search the author. */

export interface ChangesQuery {
  by: string | null;
  key: string | null;
  source: string | null;
  /** Milliseconds since 1970. */
  since: number | null;
}

export const FIELDS = ['by', 'since', 'key', 'source'];
export const SOURCES = ['admin', 'apply', 'rollback', 'configs', 'expiry'];
const UNITS: Record<string, number> = { m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000 };

/** A mistake in the filter, with its place in characters. */
export class QueryMistake extends Error {
  readonly at: number;
  constructor(message: string, at: number) {
    super(message);
    this.at = at;
  }
}

/** Reads the filter; throws a `QueryMistake` for a field or a time that does not exist. */
export function readQuery(text: string, now: number): ChangesQuery {
  const query: ChangesQuery = { by: null, key: null, source: null, since: null };
  for (const match of text.matchAll(/(?:[^\s"]|"[^"]*")+/g)) {
    const word = match[0].replace(/"/g, '');
    const colon = word.indexOf(':');
    const [field, value] = colon > 0 ? [word.slice(0, colon), word.slice(colon + 1)] : ['by', word];
    if (field === 'by') query.by = value || null;
    else if (field === 'key') query.key = value || null;
    else if (field === 'source') query.source = value || null;
    else if (field === 'since') {
      const span = /^<?(\d+)(min|m|h|d|w)$/.exec(value);
      if (value !== '' && !span) throw new QueryMistake('since takes a length of time, such as 2h or 7d', match.index + colon + 1);
      if (span) query.since = now - Number(span[1]) * (UNITS[span[2] as string] as number);
    } else throw new QueryMistake(`there is no field ${field}`, match.index);
  }
  return query;
}

/** The two revisions of `compare=4120..4127`, or none. */
export function readCompare(text: string | undefined): { from: number; to: number } | null {
  const found = /^(\d{1,15})\.\.(\d{1,15})$/.exec(text ?? '');
  return found ? { from: Number(found[1]), to: Number(found[2]) } : null;
}

/** The shares of failures in percent in ten minutes before and after a time; null where the ring does not reach. */
export function sharesAround(at: number, end: number, step: number, total: readonly (number | null)[], failed: readonly (number | null)[]): { before: number; after: number; minutes: number } | null {
  const MINUTES = 10;
  const index = total.length - 1 - Math.round((end - at) / step);
  const width = Math.round((MINUTES * 60_000) / step);
  if (index < 6 || index >= total.length - 1) return null;
  const share = (from: number, to: number) => {
    let [all, bad] = [0, 0];
    for (let place = Math.max(0, from); place < Math.min(total.length, to); place += 1) {
      all += total[place] ?? 0;
      bad += failed[place] ?? 0;
    }
    return all === 0 ? 0 : (bad / all) * 100;
  };
  const last = Math.min(total.length, index + 1 + width);
  return { before: share(index - width, index), after: share(index + 1, last), minutes: Math.max(1, Math.round(((last - index - 1) * step) / 60_000)) };
}
