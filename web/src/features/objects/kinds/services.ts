/** Services. */
import * as cells from './cells';
import type { Kind } from './types';

export const services: Kind = {
  kind: 'services', singular: 'service', label: 'Services', one: 'service', group: 'Routing',
  columns: [cells.state, cells.name, cells.id, cells.hosts, cells.upstream, cells.plugins, cells.labels, cells.routes, cells.rps, cells.p5xx, cells.p99, cells.created, cells.changed],
  fields: ['id', 'name', 'host', 'plugin', 'upstream', 'label', 'state', 'changed', 'rps', 'p5xx', 'p99'],
  placeholder: 'name, host:, plugin:, upstream:, label:, state:',
  sections: [
    { title: 'Target', fields: ['upstream_id', 'upstream'], choice: [{ label: 'upstream', fields: ['upstream_id'] }, { label: 'nodes here', fields: ['upstream'] }] },
    { title: 'Match', fields: ['hosts'] },
    { title: 'Plugins', fields: ['plugins', 'plugin_config_id', 'script'], open: ['plugins'] },
    { title: 'Limits', fields: ['enable_websocket', 'limits'] },
    { title: 'About', fields: ['name', 'desc', 'labels'], open: ['name'] },
  ],
  hide: ['id'], canPost: true, facets: ['label'],
  empty: 'No service yet. A service holds what several routes share.',
  example: { id: 'shop', body: { upstream: { type: 'roundrobin', nodes: { '127.0.0.1:8080': 1 } } } },
  fresh: { plugins: {} },
};
