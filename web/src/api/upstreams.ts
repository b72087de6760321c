/** Upstreams in force with the state of their nodes (E11). */
import type { Num } from './types';

export interface UpstreamNode {
  address: string;
  host: string;
  weight: number;
  priority: number;
  state: string;
  in_flight: number;
  ewma_ms?: Num;
  unhealthy?: { since: string; why: string };
  ejected?: { since: string; why: string };
  protection?: { circuit?: string; ejections?: number; requests?: number };
  health?: { status: string; success: number; http_failure: number; tcp_failure: number; timeout_failure: number };
  rps?: Num;
  p5xx?: Num;
  p99_us?: Num;
  idle?: Num;
  last_failure?: { cause: string; at_ms: number } | null;
}
export interface Upstream {
  /** `/upstreams/orders`, `/routes/7` for an upstream inside a route. */
  name: string;
  type: string;
  scheme: string;
  nodes: UpstreamNode[];
  checks?: string;
  protection?: { requests?: number; waiting?: number; breaker?: string };
  note?: string;
}
export interface Upstreams { total: number; list: Upstream[] }

export type NodeState = 'up' | 'down' | 'warming' | 'draining' | 'unknown';

/** The state of a node as the marks know it. */
export function stateOf(node: Pick<UpstreamNode, 'state'>): NodeState {
  if (node.state === 'usable' || node.state === 'up') return 'up';
  if (node.state === 'unhealthy' || node.state === 'ejected' || node.state === 'down') return 'down';
  return node.state === 'warming' || node.state === 'draining' ? node.state : 'unknown';
}

/** The page and the label of an upstream's name: an id, or the key of the object that holds it (`routes/shop`). */
export function upstreamId(name: string): { path: string; label: string } {
  const bare = name.replace(/^\//, '');
  const path = bare.includes('/') ? bare : `upstreams/${bare}`;
  return { path, label: path.startsWith('upstreams/') ? path.slice('upstreams/'.length) : path };
}
