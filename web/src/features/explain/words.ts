/** Explain's verdicts in words. */
import type { Candidate, Step } from '../../api/explain';

/** Why a route did not take the request, without its name. */
export function lost(candidate: Candidate, method: string): string {
  if (candidate.detail && candidate.verdict !== 'outranked') return candidate.detail;
  switch (candidate.verdict) {
    case 'method': return `methods do not hold ${method}`;
    case 'host': return candidate.host ? `its host is ${candidate.host}` : 'another host';
    case 'remote_addr': return "the client's address is not in its list";
    case 'vars': return 'its vars are false';
    case 'parameter': return 'a parameter of its path does not match';
    case 'undecided': return 'undecided: the question does not say enough';
    case 'outranked': return candidate.by ? `${candidate.by} is more exact or has priority` : 'another route has priority';
    default: return '';
  }
}

/** The verdicts in the order of their nearness: a route that lost last was nearest. */
const NEARNESS = ['outranked', 'undecided', 'vars', 'parameter', 'remote_addr', 'method', 'host'];

export function nearest(considered: Candidate[], most: number): Candidate[] {
  return considered
    .filter((each) => each.verdict !== 'matched')
    .map((each, at) => ({ each, at, rank: NEARNESS.indexOf(each.verdict) }))
    .sort((a, b) => a.rank - b.rank || a.at - b.at)
    .slice(0, most)
    .map(({ each }) => each);
}

export interface StepWords { state: 'ok' | 'err' | 'off' | 'warn'; verb: string; rest: string }

/** A plugin's step: what it does with the request. */
export function stepWords(step: Step): StepWords {
  const text = step.would?.text ?? '';
  if (step.runs === false) return { state: 'off', verb: 'skipped', rest: step.why ?? '' };
  if (step.would?.action === 'reply') return { state: 'err', verb: `answers${step.would.status ? ` ${step.would.status}` : ''}`, rest: text || (step.why ?? '') };
  if (step.would?.action === 'redirect') return { state: 'warn', verb: `redirects${step.would.status ? ` with ${step.would.status}` : ''}`, rest: text };
  if (step.runs === null || step.would?.action === 'call') return { state: 'off', verb: 'unknown', rest: text || (step.why ?? 'it depends on things outside the request') };
  return { state: 'ok', verb: step.would?.action === 'change' ? 'changes' : step.would?.action === 'choose' ? 'divides' : 'passes', rest: [step.why, text].filter(Boolean).join('; ') };
}

export interface HeaderChange { sign: '+' | '−' | '~'; name: string; value: string }

/** The fields asked about with the host of the URL, which each request has. */
export function withHost(asked: [string, string][], host: string | null): [string, string][] {
  return host === null || asked.some(([name]) => name.toLowerCase() === 'host') ? asked : [['host', host], ...asked];
}

/** Differences between the fields asked about and the fields sent on. */
export function headerChanges(asked: [string, string][], sent: [string, string][]): HeaderChange[] {
  const before = new Map(asked.map(([name, value]) => [name.toLowerCase(), value]));
  const after = new Map(sent.map(([name, value]) => [name.toLowerCase(), value]));
  const out: HeaderChange[] = [];
  for (const [name, value] of after) {
    const old = before.get(name);
    if (old === undefined) out.push({ sign: '+', name, value });
    else if (old !== value) out.push({ sign: '~', name, value });
  }
  for (const [name, value] of before) if (!after.has(name)) out.push({ sign: '−', name, value });
  return out;
}

const SECRET = /^(authorization|proxy-authorization|cookie|x-api-key|apikey|x-auth.*|.*token.*|.*secret.*)$/i;

/** Whether a header's value is hidden on the screen. */
export function isSecretHeader(name: string): boolean {
  return SECRET.test(name.trim());
}
