/** Keys of the query cache: kind of data, then its parameters. One place, so that a write can mark what it makes stale. */
import type { Query } from './client';

export const keys = {
  session: ['session'] as const,
  status: ['status'] as const,
  overview: (minutes: number) => ['overview', minutes] as const,
  top: (by: string, window: number) => ['top', by, window] as const,
  objects: (kind: string, query?: Query) => (query ? (['objects', kind, query] as const) : (['objects', kind] as const)),
  object: (kind: string, id: string) => ['object', kind, id] as const,
  schema: (kind: string) => ['schema', kind] as const,
  pluginSchemas: ['schema', 'plugins'] as const,
  usage: (kind: string, id: string) => ['usage', kind, id] as const,
  versions: (query?: Query) => (query ? (['versions', query] as const) : (['versions'] as const)),
  version: (version: number) => ['version', version] as const,
  verdicts: ['verdicts'] as const,
  upstreams: (id?: string) => (id ? (['upstreams', id] as const) : (['upstreams'] as const)),
  topology: (focus: string, limit: number) => ['topology', focus, limit] as const,
  plugins: ['plugins'] as const,
  plugin: (name: string) => ['plugins', name] as const,
  certificates: (q: string) => ['certificates', q] as const,
  failures: (q: string) => ['failures', q] as const,
  search: (q: string) => ['search', q] as const,
};

/** Roots of the keys that a new revision makes stale. */
export const REVISION_ROOTS = [
  'status', 'objects', 'object', 'usage', 'versions', 'verdicts', 'upstreams', 'topology', 'plugins', 'certificates', 'search',
];
