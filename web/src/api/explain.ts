/** The question and the answer of `weir/explain` (E10). */
import type { Num } from './types';

export interface ExplainQuestion {
  method: string;
  url: string;
  headers: [string, string][];
  remote_addr?: string;
  body_bytes?: number;
  /** An unsaved object that takes part as if it were written. */
  with?: { key: string; value: unknown };
}
export interface Candidate {
  id: string | null;
  name: string | null;
  path: string | null;
  host: string | null;
  verdict: 'matched' | 'method' | 'remote_addr' | 'host' | 'vars' | 'undecided' | 'parameter' | 'outranked';
  by: string | null;
  detail?: string;
}
export interface Step {
  plugin: string;
  phase: string;
  from: string;
  runs: boolean | null;
  why: string | null;
  would: null | { action: 'reply' | 'redirect' | 'call' | 'count' | 'change' | 'choose'; status: Num; text: string };
}
export interface Destination {
  id: string;
  type: string;
  candidates: { address: string; state: string; share: Num }[];
}
export interface Explanation {
  revision: number | null;
  request: { host: string | null; path: string };
  /** Where the request would arrive, when the instance tells. */
  listener?: string | null;
  matched: null | { id: string; service_id: string | null; upstream_id: string | null; plugins: string[]; params: Record<string, string> };
  closed: string | null;
  considered: Candidate[];
  considered_total?: number;
  unplaced: { id: string; reason: string }[];
  faulty?: { key: string; reason: string }[];
  pipeline?: Step[];
  forwarded?: null | { method: string; url: string; headers: [string, string][] };
  upstream?: null | Destination;
  /** The upstreams that a plugin divides such requests among, with shares in percent; `upstream` is null then. */
  choices?: { share: number; upstream: Destination | null }[];
}
