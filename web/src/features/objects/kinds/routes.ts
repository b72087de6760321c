/** Routes. */
import * as cells from './cells';
import type { Kind } from './types';

export const routes: Kind = {
  kind: 'routes', singular: 'route', label: 'Routes', one: 'route', group: 'Routing',
  columns: [cells.state, cells.name, cells.id, cells.match, cells.upstream, cells.service, cells.plugins, cells.labels, cells.priority, cells.rps, cells.p5xx, cells.p99, cells.created, cells.changed],
  fields: ['id', 'name', 'host', 'path', 'method', 'plugin', 'service', 'upstream', 'label', 'state', 'priority', 'changed', 'rps', 'p5xx', 'p99'],
  placeholder: 'name, path, host:, method:, plugin:, upstream:, label:, state:',
  sections: [
    { title: 'Match', fields: ['methods', 'host', 'hosts', 'uri', 'uris', 'vars', 'remote_addr', 'remote_addrs', 'priority', 'filter_func'], open: ['methods', 'uri'] },
    { title: 'Target', fields: ['upstream_id', 'service_id', 'upstream'], choice: [{ label: 'upstream', fields: ['upstream_id'] }, { label: 'service', fields: ['service_id'] }, { label: 'nodes here', fields: ['upstream'] }] },
    { title: 'Plugins', fields: ['plugins', 'plugin_config_id', 'script', 'script_id'], open: ['plugins'] },
    { title: 'Limits', fields: ['timeout', 'enable_websocket', 'limits'] },
    { title: 'About', fields: ['status', 'name', 'desc', 'labels'], open: ['status', 'name'] },
  ],
  hide: ['id'], canDisable: true, canPost: true, facets: ['service', 'label'],
  empty: 'No route yet: every request is answered 404.',
  example: { id: 'hello', body: { uri: '/hello', upstream: { type: 'roundrobin', nodes: { '127.0.0.1:8080': 1 } } } },
  fresh: { uri: '/', plugins: {} },
};
