/** Upstreams. */
import * as cells from './cells';
import { UPSTREAM_SECTIONS } from './upstreamSections';
import type { Kind } from './types';

export const upstreams: Kind = {
  kind: 'upstreams', singular: 'upstream', label: 'Upstreams', one: 'upstream', group: 'Routing',
  columns: [cells.state, cells.name, cells.id, cells.type, cells.nodes, cells.labels, cells.usedBy, cells.rps, cells.p5xx, cells.p99, cells.created, cells.changed],
  fields: ['id', 'name', 'type', 'label', 'state', 'changed', 'rps', 'p5xx', 'p99'],
  placeholder: 'name, type:, label:, state:',
  sections: UPSTREAM_SECTIONS,
  hide: ['id'], canPost: true, facets: ['label'], tabs: ['endpoints', 'topology'],
  empty: 'No upstream yet. An upstream is a set of endpoints and the way to choose one.',
  example: { id: 'shop', body: { type: 'roundrobin', nodes: { '127.0.0.1:8080': 1 } } },
  fresh: { type: 'roundrobin', nodes: {} },
};
