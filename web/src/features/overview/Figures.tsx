/** Six figures with what they were and what they are made of. */
import type { ReactNode } from 'react';
import type { Num, OverviewNow } from '../../api/types';
import { Go } from '../../ui/Go';
import { Mark } from '../../ui/Mark';
import { Spark } from '../../ui/Spark';
import { UNKNOWN, count, duration, durationParts, faultLevel, memory, memoryParts, millis, percent, rate, type Parts } from '../../ui/format';
import type { ColourName } from '../../tokens/tokens';
import { change, faultShares, totals, type View } from './data';

interface FigureProps {
  label: string;
  mark?: ReactNode;
  value: Parts;
  note: string;
  values: Num[];
  colour?: ColourName;
  least?: number;
  to?: string;
  search?: Record<string, string>;
}

function Figure({ label, mark, value, note, values, colour, least, to, search }: FigureProps) {
  const body = (
    <>
      <span className="figure-label">{label} {mark}</span>
      <span className="figure-value"><b>{value.value}</b>{value.unit && <small>{value.unit}</small>}</span>
      <span className="figure-note">{note}</span>
      <Spark values={values} colour={colour} least={least} />
    </>
  );
  return to ? <Go to={to} search={search} className="figure">{body}</Go> : <div className="figure">{body}</div>;
}

/** A share as a figure: 0.24, and `%` smaller. */
function shareParts(value: Num): Parts {
  const text = percent(value);
  return text === UNKNOWN ? { value: UNKNOWN, unit: '' } : { value: text.replace(' %', ''), unit: '%' };
}

/** The newest minute beside the oldest one of the range, which is as long as the ring has points. */
function delta(values: Num[], stepMs: number): string {
  const value = change(values);
  if (value === null) return 'a second, all workers';
  const minutes = Math.round((values.length * stepMs) / 60_000);
  const before = minutes >= 60 ? 'an hour ago' : `${minutes} min ago`;
  const rounded = Math.round(value);
  return rounded === 0 ? `as ${before}` : `${rounded > 0 ? '+' : '−'}${Math.abs(rounded)} % to ${before}`;
}

/** CPU time of a request in microseconds. */
function perRequest(now: OverviewNow): string {
  if (now.cpu === null || !now.requests) return 'no request to count on';
  return `${duration(Math.round((now.cpu / now.requests) * 1e6))} a request`;
}

export function Figures({ view, now }: { view: View; now: OverviewNow }) {
  const shares = faultShares(view);
  const share = now.requests && now.req_5xx !== null ? (now.req_5xx / now.requests) * 100 : now.requests === 0 ? 0 : null;
  const level = faultLevel(share);
  const memoryShare = now.rss !== null && now.memory_limit ? now.rss / now.memory_limit : 0;
  const p99 = durationParts(now.p99_us);
  return (
    <section className="card figures" aria-label="Figures of the last ten seconds">
      <Figure label="Requests" value={{ value: rate(now.requests), unit: '/s' }} note={delta(totals(view), view.step_ms)} values={totals(view)} to="/traffic" />
      <Figure
        label="5xx" mark={level !== 'ok' && <Mark state={level} label={level === 'err' ? 'failure' : 'attention'} size={11} />}
        value={shareParts(share)} note={`${rate(now.req_5xx)} of ${rate(now.requests)} /s`} values={shares} least={0.5}
        colour="mark-err" to="/traffic" search={{ q: 'status:>=500' }}
      />
      <Figure
        label="Latency p99" value={p99} note={`p50 ${millis(now.p50_us)} · p90 ${millis(now.p90_us)}`} values={view.series.p99_us} colour="chart-3"
        to="/traffic" search={now.p99_us ? { q: `took:>${Math.max(1, Math.round(now.p99_us / 1000))}ms` } : {}}
      />
      <Figure label="In flight" value={{ value: count(now.in_flight), unit: '' }} note={`${count(now.connections)} connections`} values={view.series.in_flight} />
      <Figure label="CPU" value={{ value: now.cpu === null ? UNKNOWN : now.cpu.toFixed(2), unit: `of ${count(now.cores)} cores` }} note={perRequest(now)} values={view.series.cpu} least={0.1} />
      <Figure
        label="Memory" mark={memoryShare > 0.9 && <Mark state="warn" label="near its limit" size={11} />} value={memoryParts(now.rss)}
        note={now.memory_limit ? `limit ${memory(now.memory_limit)}` : 'no limit set'} values={view.series.rss}
      />
    </section>
  );
}
