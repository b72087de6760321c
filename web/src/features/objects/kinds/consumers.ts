/** Consumers, their groups and their credentials. */
import * as cells from './cells';
import type { Kind } from './types';

const ABOUT = { title: 'About', fields: ['name', 'desc', 'labels'] };

export const consumers: Kind = {
  kind: 'consumers', singular: 'consumer', label: 'Consumers', one: 'consumer', group: 'Access',
  columns: [cells.state, cells.name, cells.group, cells.credentials, cells.plugins, cells.labels, cells.rps, cells.p5xx, cells.p99, cells.created, cells.changed],
  fields: ['id', 'name', 'group', 'plugin', 'label', 'state', 'changed', 'rps', 'p5xx', 'p99'],
  placeholder: 'name, group:, plugin:, label:',
  sections: [
    { title: 'Consumer', fields: ['username', 'group_id'], open: ['username', 'group_id'] },
    { title: 'Plugins', fields: ['plugins'], open: ['plugins'] },
    { title: 'Limits', fields: ['limits'] },
    { title: 'About', fields: ['desc', 'labels'], open: ['desc'] },
  ],
  hide: ['id'], facets: ['label'], tabs: ['credentials'],
  empty: 'No consumer yet. A consumer is a client that authenticates.',
  example: { id: 'jack', body: { username: 'jack' } },
  fresh: { username: '', plugins: {} },
};

export const credentials: Kind = {
  ...consumers, kind: 'credentials', singular: 'credential', label: 'Credentials', one: 'credential',
  sections: [{ title: 'Credential', fields: ['plugins'], open: ['plugins'] }, { ...ABOUT, open: ['name'] }],
  tabs: [], empty: 'No credential yet.', fresh: { plugins: {} },
  example: { id: 'one', body: { plugins: { 'key-auth': { key: '$ENV://KEY' } } } },
};

export const consumerGroups: Kind = {
  kind: 'consumer_groups', singular: 'consumer_group', label: 'Consumer groups', one: 'consumer group', group: 'Access',
  columns: [cells.state, cells.name, cells.desc, cells.plugins, cells.labels, cells.created, cells.changed],
  fields: ['id', 'name', 'plugin', 'label', 'state', 'changed'], placeholder: 'name, plugin:, label:',
  sections: [{ title: 'Plugins', fields: ['plugins'], open: ['plugins'] }, { ...ABOUT, open: ['desc'] }],
  hide: ['id'], facets: ['label'],
  empty: 'No consumer group yet. A group holds plugins that several consumers share.',
  example: { id: 'apps', body: { plugins: { 'limit-count': { count: 100, time_window: 60 } } } },
  fresh: { plugins: {} },
};
