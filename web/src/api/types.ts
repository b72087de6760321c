/** Answers of the endpoints below `weir/`; unknown numbers are null. */

export type Role = 'admin' | 'viewer';

export interface Session {
  role: Role;
  name: string | null;
  version: string;
  emulates: string;
  instance: string;
  source: 'store' | 'file' | 'etcd';
  writable: boolean;
  started_ms: number;
  listeners: { name: string; address: string; tls: boolean }[];
  features: string[];
  kinds: string[];
}

export type Num = number | null;

export interface OverviewNow {
  req_2xx: Num; req_3xx: Num; req_4xx: Num; req_5xx: Num;
  p50_us: Num; p90_us: Num; p99_us: Num;
  cpu: Num; rss: Num; in_flight: Num; connections: Num;
  cores: Num; memory_limit: Num; requests: Num; log_lines_lost: Num; requests_total: Num;
}
export type SeriesName =
  | 'req_2xx' | 'req_3xx' | 'req_4xx' | 'req_5xx' | 'p50_us' | 'p90_us' | 'p99_us'
  | 'cpu' | 'rss' | 'in_flight' | 'connections';
export interface RevisionMark { revision: number; at_ms: number; by: string | null }
export interface Attention {
  severity: 'err' | 'warn';
  what: string;
  title: string;
  detail: string;
  link: string;
}
export interface Overview {
  seq: number;
  step_ms: number;
  end_ms: number;
  series: Record<SeriesName, Num[]>;
  now: OverviewNow;
  marks: RevisionMark[];
  attention: Attention[];
  workers: { worker: number; revision: number }[];
  revision: number;
}
export interface Sample { seq: number; end_ms: number; now: OverviewNow }

export interface TopRow {
  id: string;
  name: string | null;
  match: string | null;
  upstream?: string | null;
  rps: number;
  share: number;
  p4xx: Num;
  p5xx: Num;
  p99_us: Num;
  bytes: Num;
}
export interface Top { window_s: number; list: TopRow[]; other: { rps: number; count: number } }

export type ObjectState = 'in_force' | 'last_good' | 'out' | 'off';
export interface ObjectRow {
  id: string;
  name: string | null;
  desc: string | null;
  state: ObjectState;
  reason: string | null;
  methods: string[];
  hosts: string[];
  paths: string[];
  service: string | null;
  upstream: string | null;
  plugins: string[];
  labels: Record<string, string>;
  priority: number;
  created_ms: Num;
  updated_ms: Num;
  rps: Num;
  p5xx: Num;
  p99_us: Num;
  type?: string;
  scheme?: string;
  nodes?: number;
  down?: number;
  used_by?: number;
  names?: string[];
  not_after_ms?: number;
  issuer?: string;
  group?: string | null;
  credentials?: number;
  routes?: number;
  manager?: string;
}
export interface ObjectList {
  revision: number;
  total: number;
  matched: number;
  offset: number;
  facets: Record<string, Record<string, number>>;
  list: ObjectRow[];
}

export interface SearchHit { kind: string; id: string; name: string | null; hint: string | null }
export interface Search { list: SearchHit[]; more: boolean }
export interface Use { kind: string; id: string; pointer: string }
export interface Usage { uses: Use[]; used_by: Use[]; total: number }

export interface Span {
  name: string;
  group: string;
  at_us: number;
  us: number;
  failed: boolean;
  detail: string | null;
}
export interface RequestRecord {
  id: string;
  t_ms: number;
  worker: number;
  revision: number;
  client: string;
  protocol: string;
  scheme: string;
  method: string;
  host: string;
  path: string;
  route: string | null;
  route_name: string | null;
  service: string | null;
  consumer: string | null;
  upstream: string | null;
  endpoint: string | null;
  status: number;
  cause: string | null;
  blame: 'client' | 'gateway' | 'upstream' | null;
  phase: string | null;
  detail: string | null;
  bytes_in: number;
  bytes_out: number;
  total_us: number;
  gateway_us: Num;
  upstream_us: Num;
  attempts: number;
  spans: Span[];
}
export interface TapCount { seen: number; matched: number; sent: number; dropped: number; sampled: number }
export interface Failures { list: RequestRecord[]; lost: number }

export interface TopologyNode {
  kind: 'routes' | 'services' | 'upstreams' | 'endpoints';
  id: string;
  name: string | null;
  state: 'up' | 'down' | 'out' | 'last_good' | 'off' | 'unknown';
  rps: Num;
  p5xx: Num;
}
export interface Topology {
  nodes: TopologyNode[];
  edges: { from: number; to: number; rps: Num }[];
  folded: Record<string, number>;
}

export interface VersionRow {
  version: number;
  parent: number | null;
  at_ms: number;
  source: string;
  by: string | null;
  objects?: number;
  [more: string]: unknown;
}
export interface Versions { revision: number; oldest: number; versions: VersionRow[] }

export interface PluginRow {
  name: string;
  summary: string;
  group: string;
  phases: string[];
  priority: number;
  scopes: string[];
  used_by: number;
  cost_ns: Num;
  live: null | { calls: number; p50_ns: number; p99_ns: number; share: number };
}
export interface PluginPage extends PluginRow { docs: string; used: { kind: string; id: string }[] }

export interface Certificate {
  id: string;
  kind: 'ssls' | 'file' | 'acme';
  names: string[];
  issuer: string;
  subject: string;
  not_before_ms: number;
  not_after_ms: number;
  key_type: string;
  state: 'in_force' | 'expired' | 'soon' | 'not_yet' | 'out';
  routes: Num;
  [acme: string]: unknown;
}
