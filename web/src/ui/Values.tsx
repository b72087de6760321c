/** Values in the page: numbers, shares, durations, sizes and times, each with its full value in the title. */
import { useEffect, useState } from 'react';
import { absolute, bytes, count, duration, faultLevel, memory, percent, rate, span } from './format';

type Maybe = number | null | undefined;

/** A number: `rate` has three significant digits, `count` is whole. */
export function Num({ value, as = 'count' }: { value: Maybe; as?: 'count' | 'rate' }) {
  return <span className="tnum">{as === 'rate' ? rate(value) : count(value)}</span>;
}
export function Duration({ us }: { us: Maybe }) {
  return <span className="tnum">{duration(us)}</span>;
}
export function Bytes({ value, memory: isMemory = false }: { value: Maybe; memory?: boolean }) {
  return <span className="tnum" title={value == null ? undefined : `${count(value)} bytes`}>{isMemory ? memory(value) : bytes(value)}</span>;
}
/** A share of failures: amber from 0.1 %, red from 1 %. */
export function FaultShare({ value }: { value: Maybe }) {
  const level = faultLevel(value);
  return <span className={level === 'ok' ? 'tnum' : `tnum level-${level}`}>{percent(value)}</span>;
}

/** The time on the browser's clock, in milliseconds. */
export function now(): number {
  return Date.now();
}

const SIXTY_DAYS_MS = 60 * 86_400_000;

/** The age of a time; older than 60 days it is the date. */
export function Ago({ ms }: { ms: Maybe }) {
  const [, tick] = useState(0);
  const age = ms == null ? 0 : now() - ms;
  const period = age < 60_000 ? 1000 : 30_000;
  useEffect(() => {
    const timer = window.setInterval(() => tick((n) => n + 1), period);
    return () => window.clearInterval(timer);
  }, [period]);
  if (ms == null) return <span className="quiet">–</span>;
  const text = absolute(ms);
  return <time dateTime={new Date(ms).toISOString()} title={text}>{age > SIXTY_DAYS_MS ? text : span(age)}</time>;
}
