/** Certificates, stream routes, secret managers, plugin configs, global rules, metadata and protos. */
import * as cells from './cells';
import type { Kind } from './types';

export const ssls: Kind = {
  kind: 'ssls', singular: 'ssl', label: 'Certificates', one: 'certificate', group: 'Routing',
  columns: [cells.state, { ...cells.name, width: 'minmax(120px, 1fr)' }, cells.names, cells.expiry, cells.issuer, cells.labels, cells.rps, cells.created, cells.changed],
  fields: ['id', 'name', 'names', 'label', 'state', 'changed', 'rps'], placeholder: 'name, names:, label:, state:',
  sections: [
    { title: 'Names', fields: ['snis', 'sni', 'type'], open: ['snis'] },
    { title: 'Certificate', fields: ['cert', 'key', 'certs', 'keys', 'ssl_protocols'], open: ['cert', 'key'] },
    { title: 'Clients', fields: ['client'] },
    { title: 'About', fields: ['status', 'name', 'desc', 'labels'], open: ['status'] },
  ],
  hide: ['id', 'validity_start', 'validity_end'], canDisable: true, canPost: true, facets: ['label'], tabs: ['certificate'],
  empty: 'No certificate yet: clients cannot connect by TLS.',
  example: { id: 'shop', body: { snis: ['shop.example'], cert: '$file:///etc/weir/shop.pem', key: '$file:///etc/weir/shop.key' } },
  fresh: { snis: [], cert: '', key: '' },
};

export const streamRoutes: Kind = {
  kind: 'stream_routes', singular: 'stream_route', label: 'Stream routes', one: 'stream route', group: 'Routing',
  columns: [cells.state, cells.name, cells.id, cells.desc, cells.upstream, cells.plugins, cells.labels, cells.created, cells.changed],
  fields: ['id', 'name', 'upstream', 'plugin', 'label', 'state', 'changed'], placeholder: 'name, upstream:, plugin:, label:',
  sections: [
    { title: 'Match', fields: ['server_port', 'server_addr', 'remote_addr', 'sni'], open: ['server_port'] },
    { title: 'Target', fields: ['upstream_id', 'service_id', 'upstream'], choice: [{ label: 'upstream', fields: ['upstream_id'] }, { label: 'service', fields: ['service_id'] }, { label: 'nodes here', fields: ['upstream'] }] },
    { title: 'Plugins', fields: ['plugins', 'protocol'] },
    { title: 'About', fields: ['name', 'desc', 'labels'] },
  ],
  hide: ['id'], canPost: true, facets: ['label'],
  empty: 'No stream route yet. Stream routes assign TCP and UDP connections.',
  example: { id: 'db', body: { server_port: 5432, upstream: { type: 'roundrobin', nodes: { '127.0.0.1:5432': 1 } } } },
  fresh: {},
};

export const secrets: Kind = {
  kind: 'secrets', singular: 'secret', label: 'Secrets', one: 'secret manager', group: 'Access',
  columns: [cells.state, cells.name, cells.manager, cells.labels, cells.created, cells.changed],
  fields: ['id', 'name', 'label', 'state', 'changed'], placeholder: 'name, label:',
  sections: [], hide: ['id'], facets: [],
  empty: 'No secret manager yet. References such as $secret://vault/1/path/key read from one.',
  example: { id: 'vault/1', body: { uri: 'https://vault.example:8200', prefix: 'kv/weir', token: '$ENV://VAULT_TOKEN' } },
  fresh: {},
};

export const pluginConfigs: Kind = {
  kind: 'plugin_configs', singular: 'plugin_config', label: 'Plugin configs', one: 'plugin config', group: 'Behaviour',
  columns: [cells.state, cells.name, cells.desc, cells.plugins, cells.labels, cells.created, cells.changed],
  fields: ['id', 'name', 'plugin', 'label', 'state', 'changed'], placeholder: 'name, plugin:, label:',
  sections: [{ title: 'Plugins', fields: ['plugins'], open: ['plugins'] }, { title: 'About', fields: ['name', 'desc', 'labels'], open: ['desc'] }],
  hide: ['id'], facets: ['label'],
  empty: 'No plugin config yet. Routes name one to share a set of plugins.',
  example: { id: 'standard', body: { plugins: { cors: {} } } },
  fresh: { plugins: {} },
};

export const globalRules: Kind = {
  ...pluginConfigs, kind: 'global_rules', singular: 'global_rule', label: 'Global rules', one: 'global rule',
  columns: [cells.state, cells.name, { ...cells.plugins, width: 'minmax(200px, 2fr)' }, cells.created, cells.changed],
  sections: [{ title: 'Plugins', fields: ['plugins'], open: ['plugins'] }],
  empty: 'No global rule yet. Its plugins run for every request.',
  example: { id: '1', body: { plugins: { prometheus: {} } } }, facets: [],
};

export const protos: Kind = {
  kind: 'protos', singular: 'proto', label: 'Protos', one: 'proto', group: 'Behaviour',
  columns: [cells.state, cells.name, cells.id, cells.desc, cells.labels, cells.created, cells.changed],
  fields: ['id', 'name', 'label', 'state', 'changed'], placeholder: 'name, label:',
  sections: [{ title: 'Definition', fields: ['content'], open: ['content'] }, { title: 'About', fields: ['name', 'desc', 'labels'], open: ['name'] }],
  hide: ['id'], canPost: true, facets: ['label'],
  empty: 'No proto yet. The plugin grpc-transcode reads them.',
  example: { id: 'orders', body: { content: 'syntax = "proto3";' } },
  fresh: { content: '' },
};

export const metadata: Kind = {
  kind: 'plugin_metadata', singular: 'plugin_metadata', label: 'Metadata', one: 'metadata object', group: 'Behaviour',
  columns: [cells.state, cells.name, cells.created, cells.changed],
  fields: ['id', 'name', 'state', 'changed'], placeholder: 'plugin',
  sections: [], hide: ['id'], facets: [],
  empty: 'No metadata yet. It holds the settings of a plugin for all its uses.',
  example: { id: 'http-logger', body: { log_format: { host: '$host' } } },
  fresh: {},
};
