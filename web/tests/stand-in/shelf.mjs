/** The stored objects of the stand-in and the schemas that the Admin API documents. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { NOW_MS, random } from './data.mjs';

const DAY = 86_400_000;
const MINUTE = 60_000;
const document = JSON.parse(readFileSync(fileURLToPath(new URL('../../../docs/reference/openapi.json', import.meta.url)), 'utf8'));
const schemas = document.components.schemas;

/** A schema with its references replaced, as `GET schema/KIND` answers it. */
function whole(value, depth = 0) {
  if (Array.isArray(value)) return value.map((item) => whole(item, depth));
  if (typeof value !== 'object' || value === null || depth > 12) return value;
  if (typeof value.$ref === 'string') {
    const name = value.$ref.split('/').at(-1);
    return name.endsWith('Plugins') ? {} : whole(schemas[name], depth + 1);
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, whole(item, depth)]));
}

const TITLES = {
  routes: 'Route', services: 'Service', upstreams: 'Upstream', consumers: 'Consumer', credentials: 'Credential', consumer_groups: 'ConsumerGroup',
  plugin_configs: 'PluginConfig', global_rules: 'GlobalRule', ssls: 'Ssl', stream_routes: 'StreamRoute', secrets: 'Secret', protos: 'Proto', plugin_metadata: 'PluginMetadata',
};
const SINGULAR = { route: 'routes', service: 'services', upstream: 'upstreams', consumer: 'consumers', credential: 'credentials', consumer_group: 'consumer_groups', plugin_config: 'plugin_configs', global_rule: 'global_rules', ssl: 'ssls', stream_route: 'stream_routes', secret: 'secrets', proto: 'protos', plugin_metadata: 'plugin_metadata' };

export const KINDS = Object.keys(TITLES).filter((kind) => kind !== 'credentials');
export function schemaOf(singular) {
  const kind = SINGULAR[singular];
  return kind ? whole(schemas[TITLES[kind]]) : null;
}
/** The document that `GET openapi.json` answers. */
export const openapi = document;

const GROUPS = [
  ['Authentication', /auth|acl|jwe|consumer|keycloak|casbin|opa|csrf/], ['Traffic', /limit|traffic|breaker|cache|fault|mirror|mock|control|buffering|workflow|label/],
  ['Transformation', /transform|rewrite|redirect|gzip|brotli|zstd|echo|grpc|graphql|cors|error-page|mask|body/], ['Observability', /log|zipkin|skywalking|telemetry|prometheus|datadog|status|lago|sls|syslog|info/],
];
const PRIORITIES = { 'limit-count': 1002, 'key-auth': 2500, 'jwt-auth': 2510, 'basic-auth': 2520, cors: 4000, 'request-id': 12015, 'limit-req': 1001, 'limit-conn': 1003, 'proxy-rewrite': 1008, redirect: 900, 'forward-auth': 2002, 'ip-restriction': 3000, prometheus: 500 };

export const pluginNames = Object.keys(schemas).filter((name) => /^plugin\.[^.]+$/.test(name)).map((name) => name.slice(7));

/** `plugins?all=true`. */
export function allPlugins() {
  return Object.fromEntries(pluginNames.map((name, index) => {
    const described = { version: 0.1, priority: PRIORITIES[name] ?? 100 + index, schema: whole(schemas[`plugin.${name}`]) };
    if (schemas[`plugin.${name}.consumer`]) described.consumer_schema = whole(schemas[`plugin.${name}.consumer`]);
    if (schemas[`plugin.${name}.metadata`]) described.metadata_schema = whole(schemas[`plugin.${name}.metadata`]);
    return [name, described];
  }));
}

const SUMMARIES = {
  'limit-count': 'Allows a number of requests in a time window.', 'key-auth': 'Admits consumers by a key.', 'jwt-auth': 'Admits consumers by a signed token.',
  cors: 'Answers preflight requests and names allowed origins.', 'request-id': 'Gives each request an identifier.', 'proxy-rewrite': 'Changes path, host and fields before the request is sent on.',
};
const DOCS = (name) => `# ${name}\n\n${SUMMARIES[name] ?? 'Part of every build.'} The counters live in the instance; with \`policy: redis\` instances share them.\n\n## Example\n\n\`\`\`json\n{ "${name}": { "count": 100, "time_window": 60 } }\n\`\`\`\n\n## Errors\n\n- 503 when the limit is reached; \`rejected_code\` changes it.\n- 500 when Redis cannot be asked, unless \`allow_degradation\` is true.\n\n| Field | Meaning |\n|---|---|\n| \`X-RateLimit-Limit\` | the limit |\n| \`X-RateLimit-Remaining\` | what is left |\n\nSee [the guide](https://weir.example/guide/limits) and [not a link](javascript:alert(1)). <script>alert(1)</script>\n`;

/** E14. */
export function catalogue(uses) {
  return pluginNames.map((name, index) => ({
    name,
    summary: SUMMARIES[name] ?? `Does what the page of ${name} says.`,
    group: GROUPS.find(([, match]) => match.test(name))?.[0] ?? 'Other',
    phases: [index % 3 === 0 ? 'rewrite' : index % 3 === 1 ? 'access' : 'log'],
    priority: PRIORITIES[name] ?? 100 + index,
    scopes: schemas[`plugin.${name}.consumer`] ? ['route', 'service', 'consumer', 'global_rule'] : ['route', 'service', 'global_rule'],
    used_by: uses(name).length,
    cost_ns: { 'limit-count': 1720, 'key-auth': 410, 'jwt-auth': 8400, cors: 260 }[name] ?? 300 + index * 11,
    live: name === 'limit-count' ? { calls: 184_022, p50_ns: 1500, p99_ns: 9100, share: 1.9 } : null,
  }));
}
export const pluginPage = (row, used) => ({ ...row, docs: DOCS(row.name), used });

const NAMED = [
  ['shop-read', 'GET', 'shop.example', '/shop/*', 'catalog', ['key-auth', 'limit-count', 'proxy-rewrite', 'request-id'], 'in_force', 4210, 0.02, 11_800, 3 * DAY],
  ['checkout', 'POST', 'shop.example', '/checkout/*', 'orders', ['jwt-auth', 'forward-auth', 'limit-count'], 'in_force', 1906, 1.84, 212_000, 38 * MINUTE],
  ['search', 'GET', 'shop.example', '/search', 'search', ['cors', 'limit-count'], 'in_force', 1388, 0, 38_400, 12 * DAY],
  ['legacy-soap', 'POST', 'soap.shop.example', '/services/OrderService', 'legacy', ['limit-count', 'key-auth'], 'last_good', 3.1, 0, 488_000, 14 * MINUTE],
  ['orders-api', '', 'api.shop.example', '/orders/*', 'orders', ['key-auth', 'limit-count', 'cors', 'request-id'], 'in_force', 486, 0.31, 64_000, 3 * DAY],
  ['orders-export', 'GET', 'api.shop.example', '/orders/export', 'orders-batch', ['key-auth', 'limit-count'], 'in_force', 0.4, 0, 2_410_000, 21 * DAY],
  ['partner-feed-v2', 'GET', 'partner.example', '/feed/v2/*', 'nope', ['key-auth', 'limit-count'], 'out', 0, null, null, 14 * MINUTE],
  ['partner-feed', 'GET', 'partner.example', '/feed/*', 'partner', ['key-auth', 'limit-count'], 'in_force', 118, 0, 141_000, 60 * DAY],
  ['partner-feed-old', 'GET', 'partner.example', '/export.xml', 'partner', ['limit-count'], 'off', 0, null, null, 60 * DAY],
  ['media-upload', 'PUT POST', 'media.shop.example', '/upload/*', 'media', ['jwt-auth', 'limit-count'], 'in_force', 12.7, 0, 1_880_000, 5 * DAY],
  ['media-read', 'GET HEAD', 'media.shop.example', '/*', 'media', ['cors', 'limit-count'], 'in_force', 702, 0, 3_400, 5 * DAY],
  ['account', '', 'shop.example', '/account/*', 'identity', ['jwt-auth', 'limit-count', 'cors'], 'in_force', 214, 0.01, 22_900, 9 * DAY],
  ['login', 'POST', 'shop.example', '/login', 'identity', ['limit-count', 'cors'], 'in_force', 31.2, 0, 88_100, 9 * DAY],
  ['webhooks-in', 'POST', 'hooks.shop.example', '/in/:source', 'events', ['limit-count', 'request-id'], 'in_force', 64.8, 0, 17_200, 33 * DAY],
  ['graphql', 'POST', 'api.shop.example', '/graphql', 'bff', ['jwt-auth', 'limit-count', 'cors'], 'in_force', 320, 0.06, 92_500, 2 * DAY],
  ['graphql-preview', 'POST', 'preview.shop.example', '/graphql', 'bff-canary', ['jwt-auth', 'limit-count'], 'in_force', 1.1, 0, 104_000, 2 * DAY],
  ['recommend', 'GET', 'shop.example', '/recommend/*', 'ml', ['limit-count', 'cors'], 'in_force', 240, 0, 71_000, 6 * DAY],
];

const CONFIGS = {
  'limit-count': { count: 100, time_window: 60, rejected_code: 429, key: 'consumer_name' }, 'key-auth': {}, 'jwt-auth': {}, cors: { allow_origins: 'https://shop.example', allow_methods: 'GET,POST' },
  'proxy-rewrite': { uri: '/v2/shop', headers: { set: { 'X-From': 'edge' } } }, 'request-id': {}, 'forward-auth': { uri: 'http://auth/check', request_headers: ['Authorization'] },
};

/** Every object by key with its statistics. */
export function makeShelf() {
  const shelf = new Map();
  const next = random(11);
  const put = (kind, id, value, more = {}) => shelf.set(`${kind}/${id}`, { kind, id, value: { id, ...value }, index: 4000 + Math.floor(next() * 120), by: 'ana', state: 'in_force', rps: 0, p5xx: null, p99_us: null, age: 9 * DAY, ...more });
  for (const [id, methods, host, uri, upstream, plugins, state, rps, p5xx, p99_us, age] of NAMED) {
    const value = { uri, ...(methods ? { methods: methods.split(' ') } : {}), host, upstream_id: upstream, plugins: Object.fromEntries(plugins.map((name) => [name, structuredClone(CONFIGS[name])])), labels: { team: host.startsWith('partner') ? 'partners' : 'shop' } };
    if (state === 'off') value.status = 0;
    if (id === 'legacy-soap') value.plugins['limit-count'].count = 'many';
    if (id === 'checkout') value.vars = [['http_x_channel', '==', 'web']];
    put('routes', id, value, { state, rps, p5xx, p99_us, age, reason: id === 'legacy-soap' ? '/plugins/limit-count/count: expected a whole number, found a text' : id === 'partner-feed-v2' ? '/upstream_id: upstream nope does not exist' : null });
  }
  for (let at = 0; at < 10_432 - NAMED.length; at += 1) {
    const id = `api-${String(at + 1).padStart(5, '0')}`;
    put('routes', id, { uri: `/t/${at % 97}/v${at % 7}/*`, methods: ['GET'], host: `t${at % 97}.tenant.example`, upstream_id: `tenant-${at % 97}`, plugins: at % 3 === 0 ? { 'key-auth': {} } : {} }, { rps: at % 5 === 0 ? +(next() * 2).toFixed(2) : 0, p5xx: at % 5 === 0 ? 0 : null, p99_us: at % 5 === 0 ? Math.round(next() * 90_000) : null, age: (1 + at % 90) * DAY });
  }
  put('services', 'checkout', { name: 'checkout', upstream_id: 'orders', plugins: { 'forward-auth': structuredClone(CONFIGS['forward-auth']) }, hosts: ['shop.example'] }, { rps: 1947, p5xx: 1.8, p99_us: 201_000 });
  for (const [id, type, nodes, down, used] of [['orders', 'least_conn', 6, 2, 3], ['catalog', 'roundrobin', 8, 0, 1], ['payments', 'roundrobin', 4, 0, 0], ['search', 'chash', 12, 0, 1], ['partner', 'roundrobin', 2, 0, 2]]) {
    put('upstreams', id, { name: id, type, nodes: Array.from({ length: nodes }, (_, at) => ({ host: `10.0.4.${12 + at}`, port: 8080, weight: 1 })), checks: { active: { type: 'http', http_path: '/health', healthy: { interval: 2, successes: 2 }, unhealthy: { interval: 1, http_failures: 3 } } } }, { rps: 600, p5xx: 0.1, p99_us: 31_000, nodes, down, used_by: used, type, scheme: 'http' });
  }
  for (const [id, names, days, issuer] of [['partner', ['*.partner.example'], 6, 'R11'], ['shop', ['shop.example', '*.shop.example'], 74, 'R11'], ['media', ['media.shop.example'], 61, 'E5']]) {
    put('ssls', id, { snis: names, cert: '-----BEGIN CERTIFICATE-----\nMIIB…\n-----END CERTIFICATE-----\n'.padEnd(140, ' '), key: '-----BEGIN PRIVATE KEY-----\nSECRETKEY\n-----END PRIVATE KEY-----\n'.padEnd(140, ' ') }, { names, not_after_ms: NOW_MS + days * DAY, issuer, rps: 300 });
  }
  for (const [username, group, plugins, rps] of [['mobile-app', 'apps', { 'key-auth': { key: 'k-mobile-7f' } }, 2640], ['web-shop', 'apps', { 'jwt-auth': { key: 'web', secret: 's3cret' } }, 2210], ['partner-sync', null, {}, 640]]) {
    put('consumers', username, { username, ...(group ? { group_id: group } : {}), plugins }, { rps, p5xx: 0.1, p99_us: 51_000, group, credentials: username === 'partner-sync' ? 2 : 1 });
    shelf.get(`consumers/${username}`).value = { username, ...(group ? { group_id: group } : {}), plugins };
  }
  put('consumers', 'partner-sync/credentials/one', { name: 'nightly export', plugins: { 'key-auth': { key: 'k-partner-2d' } } });
  put('consumers', 'partner-sync/credentials/two', { name: 'ad hoc', plugins: { 'basic-auth': { username: 'sync', password: 'pw' } } });
  put('consumer_groups', 'apps', { plugins: { 'limit-count': { count: 6000, time_window: 60 } } });
  put('secrets', 'vault/main', { uri: 'https://vault.example:8200', prefix: 'kv/weir', token: 't0ken' }, { manager: 'vault' });
  put('plugin_configs', 'standard', { plugins: { cors: structuredClone(CONFIGS.cors), 'request-id': {} }, desc: 'for every public route' });
  put('global_rules', '1', { plugins: { prometheus: {}, 'ip-restriction': { blacklist: ['203.0.113.0/24'] } } });
  put('protos', 'orders', { content: 'syntax = "proto3"; package orders; service Orders { rpc Get (Id) returns (Order); } message Id { string id = 1; } message Order { string id = 1; }' });
  put('plugin_metadata', 'http-logger', { log_format: { host: '$host', status: '$status' } });
  put('routes', 'odd<script>', { uri: '/odd', name: '<script>alert(1)</script>', desc: '<img src=x onerror=alert(1)>', upstream_id: 'orders', labels: { '<b>': '<i>' } }, { age: 90 * DAY });
  return shelf;
}
