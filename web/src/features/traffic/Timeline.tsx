/** The timeline of a request: spans by group on one scale; a failed span is red, hatched and has a cross. */
import type { RequestRecord, Span } from '../../api/types';
import { count, duration, durationFine, millis } from '../../ui/format';
import { attemptOf, grouped } from './story';

const NAMES: Record<string, string> = { client: 'Client', gateway: 'Gateway', response: 'Response', log: 'Log' };

function kindOf(group: string): string {
  return attemptOf(group) ? 'endpoint' : group === 'gateway' || group === 'log' ? 'gateway' : group === 'response' ? 'gateway' : 'client';
}

/** Span names of the response that are the client's: writing to it. */
function spanKind(group: string, span: Span): string {
  if (span.failed) return 'failed';
  return group === 'response' && /client/.test(span.name) ? 'client' : kindOf(group);
}

export function Timeline({ record }: { record: RequestRecord }) {
  const total = Math.max(record.total_us, ...record.spans.map((span) => span.at_us + span.us), 1);
  const ticks = [0, 0.25, 0.5, 0.75];
  if (record.spans.length === 0) {
    return <p className="timeline-none quiet">This request was not timed: only some requests are, and only while the page is open.</p>;
  }
  return (
    <div className="timeline" role="table" aria-label={`Timeline of ${duration(record.total_us)}`}>
      <div className="timeline-axis" role="row" aria-hidden="true">
        <span />
        <span className="timeline-ticks">{ticks.map((tick) => <i key={tick} style={{ left: `${tick * 100}%` }}>{tick === 0 ? '0' : total < 2000 ? count(Math.round(total * tick)) : millis(total * tick)}</i>)}</span>
        <span className="num">{duration(total)}</span>
      </div>
      {grouped(record.spans).map(({ group, spans }) => {
        const attempt = attemptOf(group);
        const failed = spans.find((span) => span.failed);
        const sum = spans.reduce((all, span) => all + span.us, 0);
        return (
          <div key={group} role="rowgroup">
            <div className="timeline-group" role="row">
              <span role="rowheader">{attempt ? `Attempt ${attempt.number} · ${attempt.address}` : (NAMES[group] ?? group)}</span>
              <span role="cell" className={failed ? 'level-err' : 'quiet'}>{failed ? (failed.detail ?? 'failed') : spans.length > 1 ? durationFine(sum) : ''}</span>
            </div>
            {spans.map((span, at) => (
              <div key={`${span.name}${at}`} className="timeline-row" role="row">
                <span role="rowheader" className="ellipsis">{span.name}{span.detail && !span.failed && <small className="quiet"> {span.detail}</small>}</span>
                <span className="timeline-track" aria-hidden="true">
                  {ticks.map((tick) => <i key={tick} className="timeline-line" style={{ left: `${tick * 100}%` }} />)}
                  <b
                    className={`span span-${spanKind(group, span)}`}
                    style={{ left: `${(span.at_us / total) * 100}%`, width: `max(2px, ${(span.us / total) * 100}%)` }}
                  />
                </span>
                <span role="cell" className={span.failed ? 'num level-err' : 'num dim'}>{span.failed && '✕ '}{durationFine(span.us)}</span>
              </div>
            ))}
          </div>
        );
      })}
    </div>
  );
}
