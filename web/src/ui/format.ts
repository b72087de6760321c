/** Numbers, durations, sizes and times as text, in the browser's locale. Unknown is an en dash, a true zero is `0`. */

export const UNKNOWN = '–';
type Maybe = number | null | undefined;

const grouped = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const digits = [0, 1, 2, 3].map((count) => new Intl.NumberFormat(undefined, { minimumFractionDigits: count, maximumFractionDigits: count }));

function fixed(value: number, count: number): string {
  return digits[count]!.format(value);
}

function isNumber(value: Maybe): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

/** A whole number, grouped. */
export function count(value: Maybe): string {
  return isNumber(value) ? grouped.format(value) : UNKNOWN;
}

/** Three significant digits: 4,210 · 64.8 · 0.4. */
export function rate(value: Maybe): string {
  if (!isNumber(value)) return UNKNOWN;
  if (value === 0) return '0';
  if (value >= 100) return grouped.format(value);
  if (value >= 0.05) return fixed(value, Number.isInteger(value) ? 0 : 1);
  return `< ${fixed(0.05, 2)}`;
}

/** A share in percent: 0.02 %, 1.84 %, 44 %. */
export function percent(value: Maybe, places = 2): string {
  if (!isNumber(value)) return UNKNOWN;
  const digitsShown = value >= 99.95 ? 0 : value >= 10 && places > 1 ? 1 : places;
  return `${value === 0 ? '0' : fixed(value, digitsShown)} %`;
}

/** A value in parts, so that a figure can show the unit smaller. */
export interface Parts { value: string; unit: string }

/** Microseconds: µs under 1 ms, ms under 10 s, then s. */
export function durationParts(us: Maybe): Parts {
  if (!isNumber(us)) return { value: UNKNOWN, unit: '' };
  if (us === 0) return { value: '0', unit: 'ms' };
  if (us < 1000) return { value: fixed(us, us < 10 ? 1 : 0), unit: 'µs' };
  const ms = us / 1000;
  if (ms < 10_000) return { value: fixed(ms, ms < 100 ? 1 : 0), unit: 'ms' };
  return { value: fixed(ms / 1000, 1), unit: 's' };
}
export function duration(us: Maybe): string {
  const { value, unit } = durationParts(us);
  return unit ? `${value} ${unit}` : value;
}
/** As `duration`, with two decimals under 100 ms, for the spans of one request. */
export function durationFine(us: Maybe): string {
  if (!isNumber(us) || us < 1000 || us >= 100_000) return duration(us);
  return `${fixed(us / 1000, 2)} ms`;
}
/** Milliseconds without their unit, for a column that names it in its header. */
export function millis(us: Maybe): string {
  if (!isNumber(us)) return UNKNOWN;
  const ms = us / 1000;
  return ms === 0 ? '0' : ms >= 100 ? grouped.format(ms) : ms >= 0.1 ? fixed(ms, 1) : fixed(ms, 2);
}
/** Nanoseconds of a plugin's cost: 400 ns is `0.4 µs`. */
export function nanos(ns: Maybe): string {
  if (!isNumber(ns)) return UNKNOWN;
  return ns < 1_000_000 ? `${fixed(ns / 1000, ns < 10_000 ? 2 : 1)} µs` : `${fixed(ns / 1_000_000, 1)} ms`;
}

function scaled(bytes: Maybe, base: number, units: string[]): Parts {
  if (!isNumber(bytes)) return { value: UNKNOWN, unit: '' };
  let value = bytes;
  let at = 0;
  while (Math.abs(value) >= base && at < units.length - 1) {
    value /= base;
    at += 1;
  }
  return { value: at === 0 || value >= 100 ? grouped.format(value) : value >= 10 && base === 1024 ? grouped.format(value) : fixed(value, 1), unit: units[at]! };
}
/** Traffic: powers of 1000. */
export function bytesParts(bytes: Maybe): Parts {
  return scaled(bytes, 1000, ['B', 'kB', 'MB', 'GB', 'TB']);
}
export function bytes(value: Maybe): string {
  const parts = bytesParts(value);
  return parts.unit ? `${parts.value} ${parts.unit}` : parts.value;
}
/** Memory: powers of 1024. */
export function memoryParts(value: Maybe): Parts {
  return scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
}
export function memory(value: Maybe): string {
  const parts = memoryParts(value);
  return parts.unit ? `${parts.value} ${parts.unit}` : parts.value;
}

/** A length of time in one unit: 12 s, 38 min, 5 h, 3 d. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

const UTC_KEY = 'weir.utc';
export function isUtc(): boolean {
  try {
    return window.localStorage.getItem(UTC_KEY) === '1';
  } catch {
    return false;
  }
}
export function setUtc(on: boolean): void {
  try {
    window.localStorage.setItem(UTC_KEY, on ? '1' : '0');
  } catch {
    // the choice lasts for this page only
  }
  formats.clear();
}

const formats = new Map<string, Intl.DateTimeFormat>();
function format(name: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  let found = formats.get(name);
  if (!found) {
    found = new Intl.DateTimeFormat(undefined, { hourCycle: 'h23', ...options, ...(isUtc() ? { timeZone: 'UTC' } : {}) });
    formats.set(name, found);
  }
  return found;
}

/** 14:02:11 */
export function clock(ms: number): string {
  return format('clock', { hour: '2-digit', minute: '2-digit', second: '2-digit' }).format(ms);
}
/** 14:02 */
export function clockMinute(ms: number): string {
  return format('minute', { hour: '2-digit', minute: '2-digit' }).format(ms);
}
/** 14:02:11.482 */
export function clockMillis(ms: number): string {
  return format('millis', { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 }).format(ms);
}
/** 26 Nov 2026, 14:02:11 with the zone. */
export function absolute(ms: number): string {
  return format('absolute', {
    year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short',
  }).format(ms);
}
/** 30 Nov 2026 */
export function day(ms: number): string {
  return format('day', { year: 'numeric', month: 'short', day: 'numeric' }).format(ms);
}

/** Attention by the share of 5xx: amber from 0.1 %, red from 1 %. */
export function faultLevel(p5xx: Maybe): 'ok' | 'warn' | 'err' {
  if (!isNumber(p5xx)) return 'ok';
  return p5xx >= 1 ? 'err' : p5xx >= 0.1 ? 'warn' : 'ok';
}

/** A line of Markdown as plain text: links by their words, code without its marks. */
export function plainLine(markdown: string): string {
  return markdown.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/`/g, '');
}
