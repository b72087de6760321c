/** One sentence about a request: what failed, where, after how long, whether it was sent twice. */
import type { RequestRecord, Span } from '../../api/types';
import { duration } from '../../ui/format';

const SAID: Record<string, (record: RequestRecord) => string> = {
  origin_closed: (record) => `The endpoint ${record.endpoint ?? ''} closed the connection before it answered`,
  connect_failed: (record) => `The endpoint ${record.endpoint ?? ''} did not take the connection`,
  connect_timeout: (record) => `The endpoint ${record.endpoint ?? ''} did not take the connection in time`,
  read_timeout: (record) => `The endpoint ${record.endpoint ?? ''} did not answer in time`,
  route_not_found: () => 'No route matches this request',
  status_changed: (record) => `A plugin changed the status to ${record.status}`,
  upstream_status: (record) => `The endpoint ${record.endpoint ?? ''} answered ${record.status}`,
};
const ORDINAL = ['', 'first', 'second', 'third', 'fourth', 'fifth'];

/** The address of an attempt's group (`attempt 2 10.0.4.18:8080`), with its number. */
export function attemptOf(group: string): { number: number; address: string } | null {
  const found = /^attempt (\d+)(?: (.*))?$/.exec(group);
  return found ? { number: Number(found[1]), address: found[2] ?? '' } : null;
}

export interface Story { lead: string; rest: string }

function failedSpan(record: RequestRecord, attempt: number): Span | undefined {
  return record.spans.find((span) => span.failed && attemptOf(span.group)?.number === attempt);
}

export function story(record: RequestRecord): Story {
  if (record.cause === null) {
    const where = record.endpoint ? `The endpoint ${record.endpoint} answered ${record.status}` : `The gateway answered ${record.status}`;
    return { lead: where, rest: ` after ${duration(record.total_us)}${record.attempts > 1 ? `, at the ${ORDINAL[record.attempts] ?? `${record.attempts}th`} attempt` : ''}.` };
  }
  const known = SAID[record.cause];
  const isPlugin = record.blame !== 'upstream' && !known;
  const lead = known ? known(record) : isPlugin ? `${record.cause} answered ${record.status}` : `The gateway answered ${record.status}`;
  const parts: string[] = [];
  const last = failedSpan(record, record.attempts);
  parts.push(` (${record.cause})${last ? `, after ${duration(last.us)}` : ''}.`);
  if (record.attempts > 1) {
    parts.push(`It was the ${ORDINAL[record.attempts] ?? `${record.attempts}th`} attempt.`);
    for (let number = 1; number < record.attempts; number += 1) {
      const span = failedSpan(record, number);
      const address = span ? attemptOf(span.group)?.address : undefined;
      if (span && address) parts.push(`Attempt ${number} at ${address} failed: ${span.detail ?? span.name}.`);
    }
  }
  if (record.detail && !known) parts.push(`${record.detail}.`);
  return { lead, rest: parts.join(' ').replace(/^ \(/, ' (') };
}

/** Spans by their groups, in the order in which the groups begin. */
export function grouped(spans: Span[]): { group: string; spans: Span[] }[] {
  const groups: { group: string; spans: Span[] }[] = [];
  for (const span of spans.slice(0, 60)) {
    const found = groups.find((each) => each.group === span.group);
    if (found) found.spans.push(span);
    else groups.push({ group: span.group, spans: [span] });
  }
  return groups;
}
