/** The pages of the navigation: group, address, words, letter after `g`. */

export interface Page {
  path: string;
  label: string;
  /** One object in words ("route"), for buttons such as "New route". */
  one?: string;
  /** Collection of the Admin API, when the page lists one. */
  kind?: string;
  letter?: string;
  /** Shown in the navigation only when the instance has such an object. */
  rare?: boolean;
}
export interface Group { label: string | null; pages: Page[] }

export const GROUPS: Group[] = [
  {
    label: null,
    pages: [
      { path: '/overview', label: 'Overview', letter: 'o' },
      { path: '/traffic', label: 'Traffic', letter: 't' },
      { path: '/explain', label: 'Explain', letter: 'e' },
    ],
  },
  {
    label: 'Routing',
    pages: [
      { path: '/routes', label: 'Routes', one: 'route', kind: 'routes', letter: 'r' },
      { path: '/services', label: 'Services', one: 'service', kind: 'services', letter: 's' },
      { path: '/upstreams', label: 'Upstreams', one: 'upstream', kind: 'upstreams', letter: 'u' },
      { path: '/stream_routes', label: 'Stream routes', one: 'stream route', kind: 'stream_routes', rare: true },
      { path: '/ssls', label: 'Certificates', one: 'certificate', kind: 'ssls', letter: 'c' },
    ],
  },
  {
    label: 'Access',
    pages: [
      { path: '/consumers', label: 'Consumers', one: 'consumer', kind: 'consumers', letter: 'n' },
      { path: '/consumer_groups', label: 'Consumer groups', one: 'consumer group', kind: 'consumer_groups', rare: true },
      { path: '/secrets', label: 'Secrets', one: 'secret manager', kind: 'secrets' },
    ],
  },
  {
    label: 'Behaviour',
    pages: [
      { path: '/plugins', label: 'Plugins', letter: 'p' },
      { path: '/plugin_configs', label: 'Plugin configs', one: 'plugin config', kind: 'plugin_configs' },
      { path: '/global_rules', label: 'Global rules', one: 'global rule', kind: 'global_rules' },
      { path: '/plugin_metadata', label: 'Metadata', one: 'metadata object', kind: 'plugin_metadata', rare: true },
      { path: '/protos', label: 'Protos', one: 'proto', kind: 'protos', rare: true },
    ],
  },
  {
    label: 'Operation',
    pages: [
      { path: '/changes', label: 'Changes', letter: 'h' },
      { path: '/faults', label: 'Faults', letter: 'f' },
      { path: '/laboratory', label: 'Laboratory', letter: 'l' },
    ],
  },
];

export const PAGES: Page[] = GROUPS.flatMap((group) => group.pages);

export function pageOfKind(kind: string): Page | undefined {
  return PAGES.find((page) => page.kind === kind);
}

export function pageOfPath(path: string): { page: Page; group: Group } | undefined {
  const first = `/${path.split('/')[1] ?? ''}`;
  for (const group of GROUPS) {
    const page = group.pages.find((each) => each.path === first);
    if (page) return { page, group };
  }
  return undefined;
}
