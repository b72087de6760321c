/** Objects, schemas, plans, revisions, plugins and certificates of the stand-in. */
import { parse as parseYaml } from 'yaml';
import { NOW_MS } from './data.mjs';
import { queryFault } from './live.mjs';
import { KINDS, allPlugins, catalogue, makeShelf, openapi, pluginPage, schemaOf } from './shelf.mjs';

const FIELDS = ['id', 'name', 'host', 'path', 'uri', 'method', 'plugin', 'service', 'upstream', 'label', 'state', 'priority', 'changed', 'rps', 'p5xx', 'p99', 'group', 'names', 'type'];
const HIDDEN = '(hidden)';
const SECRET = /^(key|secret|password|token|client_secret|redis_password)$/;

function shelfOf(state) {
  state.shelf ??= makeShelf();
  state.plugins ??= allPlugins();
  state.changesOf ??= new Map([[4127, [{ key: 'routes/checkout', action: 'change', fields: [{ pointer: '/plugins/limit-count/count', before: 10, after: 100 }] }]], [4126, [{ key: 'upstreams/old', action: 'delete', fields: [] }, { key: 'routes/beta', action: 'create', fields: [{ pointer: '', after: { uri: '/beta/*' } }] }, { key: 'routes/checkout', action: 'change', fields: [{ pointer: '/plugins/limit-count/count', before: 100, after: 10 }] }]]]);
  return state.shelf;
}

/** A summary row of E4. */
function row(item) {
  const { value } = item;
  const plugins = Object.keys(value.plugins ?? {});
  return {
    id: item.id, name: value.name ?? value.username ?? null, desc: value.desc ?? null, state: value.status === 0 ? 'off' : item.state, reason: item.reason ?? null,
    methods: value.methods ?? [], hosts: value.hosts ?? (value.host ? [value.host] : []), paths: value.uris ?? (value.uri ? [value.uri] : []), service: value.service_id ?? null,
    upstream: value.upstream_id ?? (value.upstream ? '(here)' : null), plugins, labels: value.labels ?? {}, priority: value.priority ?? 0,
    created_ms: NOW_MS - item.age, updated_ms: NOW_MS - item.age, rps: item.rps, p5xx: item.p5xx, p99_us: item.p99_us,
    type: item.type, scheme: item.scheme, nodes: item.nodes, down: item.down, used_by: item.used_by, names: item.names, not_after_ms: item.not_after_ms, issuer: item.issuer,
    group: item.group, credentials: item.credentials, manager: item.manager,
  };
}

function matches(summary, q) {
  return (q.match(/"[^"]*"|\S+/g) ?? []).every((word) => {
    const negated = word.startsWith('-');
    const bare = word.slice(negated ? 1 : 0).replaceAll('"', '');
    const colon = bare.indexOf(':');
    if (colon < 0) return `${summary.id} ${summary.name ?? ''} ${summary.desc ?? ''} ${summary.hosts} ${summary.paths}`.toLowerCase().includes(bare.toLowerCase()) !== negated;
    const [field, wanted] = [bare.slice(0, colon), bare.slice(colon + 1)];
    const of = { id: summary.id, name: summary.name, state: summary.state, plugin: summary.plugins, host: summary.hosts, path: summary.paths, uri: summary.paths, method: summary.methods, upstream: summary.upstream, service: summary.service, group: summary.group, names: summary.names, type: summary.type, rps: summary.rps, p5xx: summary.p5xx, label: Object.entries(summary.labels).flatMap(([key, value]) => [key, `${key}:${value}`]), changed: (NOW_MS - summary.updated_ms) / 86_400_000 }[field];
    const one = (text) => {
      const comparison = /^(>=|<=|>|<)([\d.]+)/.exec(text);
      if (comparison) return { '>=': of >= +comparison[2], '<=': of <= +comparison[2], '>': of > +comparison[2], '<': of < +comparison[2] }[comparison[1]];
      const pattern = new RegExp(`^${text.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&')).join('.*')}$`, 'i');
      return [of ?? []].flat().some((each) => pattern.test(String(each)));
    };
    return wanted.split(',').some(one) !== negated;
  });
}

function list({ state, query }, kind) {
  const q = query.get('q') ?? '';
  const fault = queryFault(q, FIELDS);
  if (fault) return { status: 400, body: fault };
  const all = [...shelfOf(state).values()].filter((item) => item.kind === kind && !item.id.includes('/credentials/')).map(row);
  const found = all.filter((summary) => matches(summary, q));
  const sort = query.get('sort');
  if (sort) {
    const [field, down] = sort.startsWith('-') ? [sort.slice(1), -1] : [sort, 1];
    found.sort((a, b) => (a[field] == null) - (b[field] == null) || (a[field] > b[field] ? down : a[field] < b[field] ? -down : 0));
  }
  const offset = Number(query.get('offset') ?? 0);
  const limit = Math.min(500, Number(query.get('limit') ?? 200));
  const facets = { state: {}, label: {} };
  for (const summary of found) {
    facets.state[summary.state] = (facets.state[summary.state] ?? 0) + 1;
    for (const [key, value] of Object.entries(summary.labels)) facets.label[`${key}:${value}`] = (facets.label[`${key}:${value}`] ?? 0) + 1;
  }
  return { body: { revision: state.revision, total: all.length, matched: found.length, offset, facets, list: found.slice(offset, offset + limit) } };
}

function hide(value) {
  if (Array.isArray(value)) return value.map(hide);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, SECRET.test(key) && typeof item === 'string' && value.count === undefined ? HIDDEN : hide(item)]));
}

function fields(before, after, pointer = '') {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isObject(before) || !isObject(after)) return [{ pointer, ...(before === undefined ? {} : { before: hide(before) }), ...(after === undefined ? {} : { after: hide(after) }) }];
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) => fields(before[key], after[key], `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`));
}

/** The faults that the stand-in knows: enough for fields to show them. */
function check(state, key, value) {
  const faults = [];
  const add = (pointer, reason) => faults.push({ key, pointer, reason });
  if (key.startsWith('routes/') && value.uri === undefined && value.uris === undefined) add('', 'a route needs uri or uris, and one of upstream, upstream_id, service_id, plugins');
  if (typeof value.uri === 'string' && !value.uri.startsWith('/')) add('/uri', 'must begin with /');
  if (value.upstream_id !== undefined && !shelfOf(state).has(`upstreams/${value.upstream_id}`) && !/tenant|nope|legacy|batch|media|identity|events|bff|ml/.test(value.upstream_id)) add('/upstream_id', `upstream ${value.upstream_id} does not exist`);
  for (const [name, config] of Object.entries(value.plugins ?? {})) {
    const schema = state.plugins[name]?.schema;
    if (!schema) add(`/plugins/${name}`, 'there is no plugin of this name');
    if (name === 'limit-count' && config.count !== undefined && typeof config.count !== 'number' && !/^\d+$|\$/.test(config.count)) add('/plugins/limit-count/count', 'expected a whole number or a text with variables, such as ${http_x_quota}');
    if (name === 'limit-count' && config.rules === undefined && (config.count === undefined || config.time_window === undefined)) add('/plugins/limit-count', 'needs count and time_window, or rules');
  }
  return faults;
}

function idOf(kind, value) {
  return String(value.id ?? value.username ?? '');
}

function planOf(state, set, keepOthers) {
  const shelf = shelfOf(state);
  const objects = [];
  const faults = [];
  const named = new Set();
  for (const [kind, items] of Object.entries(set)) {
    if (kind === 'delete') continue;
    for (const value of items) {
      const key = `${kind}/${idOf(kind, value)}`;
      named.add(key);
      faults.push(...check(state, key, value));
      const old = shelf.get(key)?.value;
      const changed = fields(old, value);
      if (!old) objects.push({ key, action: 'create', fields: [{ pointer: '', after: hide(value) }] });
      else if (changed.length > 0) objects.push({ key, action: 'change', fields: changed });
    }
  }
  for (const key of set.delete ?? []) if (shelf.has(key)) objects.push({ key, action: 'delete', fields: [] });
  if (!keepOthers) for (const key of shelf.keys()) if (!named.has(key) && Object.keys(set).includes(key.split('/')[0])) objects.push({ key, action: 'delete', fields: [] });
  if (faults.length > 0) return { status: 400, body: { error_msg: `nothing was changed: the set has ${faults.length} faults`, faults } };
  const count = (action) => objects.filter((each) => each.action === action).length;
  return { body: { revision: state.revision, create: count('create'), change: count('change'), delete: count('delete'), objects } };
}

function newRevision(state, source, by, changes) {
  state.versions = [{ version: state.revision + 1, parent: state.revision, at_ms: NOW_MS, source, by, objects: changes.length }, ...state.versions];
  state.revision += 1;
  state.changesOf.set(state.revision, changes);
  return state.revision;
}

function apply(call, keepOthers) {
  const { state, query, headers } = call;
  const expected = query.get('expect');
  if (expected && Number(expected) !== state.revision) return { status: 409, body: { error_msg: `the configuration is at revision ${state.revision}, not at ${expected}: it was changed in the meantime; make a new plan`, revision: state.revision } };
  const set = readSet(call.text);
  if (set.status) return set;
  const plan = planOf(state, set, keepOthers);
  if (plan.status) return plan;
  const before = state.revision;
  for (const [kind, items] of Object.entries(set)) if (kind !== 'delete') for (const value of items) write(state, kind, idOf(kind, value), value, headers['x-weir-author'] ?? 'admin');
  for (const each of plan.body.objects) if (each.action === 'delete') state.shelf.delete(each.key);
  const revision = newRevision(state, 'apply', headers['x-weir-author'] ?? 'admin', plan.body.objects);
  return { body: { ...plan.body, revision, before }, headers: { 'X-Weir-Revision': String(revision) } };
}

function readSet(text) {
  try {
    return parseYaml(text) ?? {};
  } catch (error) {
    return { status: 400, body: { error_msg: 'nothing was changed: the set has 1 fault', faults: [{ line: error.linePos?.[0]?.line ?? 1, place: '', reason: error.message.split('\n')[0] }] } };
  }
}

function write(state, kind, id, value, by) {
  const old = state.shelf.get(`${kind}/${id}`);
  const full = kind === 'consumers' && !id.includes('/') ? { username: id, ...value } : { id, ...value };
  state.shelf.set(`${kind}/${id}`, { rps: 0, p5xx: null, p99_us: null, ...old, kind, id, value: full, state: 'in_force', reason: null, index: state.revision + 1, by, age: 0 });
}

function single(call, kind, id) {
  const { state, method, headers, query } = call;
  const shelf = shelfOf(state);
  const key = `${kind}/${id}`;
  const item = shelf.get(key);
  const shown = (value) => (call.role === 'viewer' ? hide(value) : value);
  const answer = (one) => ({ key: `/apisix/${key}`, value: shown(one.value), createdIndex: one.index, modifiedIndex: one.index });
  if (method === 'GET') return item ? { body: answer(item), headers: { ETag: `"${item.index}"` } } : { status: 404, body: { message: 'Key not found' } };
  const wanted = headers['if-match']?.replaceAll('"', '');
  if ((wanted !== undefined && item && wanted !== String(item.index)) || (wanted !== undefined && !item) || (headers['if-none-match'] === '*' && item)) {
    return { status: 412, body: { error_msg: `${key} was written by ${item?.by ?? 'another author'} in the meantime`, current: item ? hide(item.value) : null, modifiedIndex: item?.index ?? 0, by: item?.by ?? null, at_ms: NOW_MS - 90_000 } };
  }
  const by = headers['x-weir-author'] ?? 'admin';
  if (method === 'DELETE') {
    const users = usage(state, kind, id).body.used_by;
    if (users.length > 0 && query.get('force') !== 'true') return { status: 400, body: { error_msg: `can not delete this ${kind.replace(/s$/, '')}, ${users[0].kind.replace(/s$/, '')} [${users[0].id}] is still using it now` } };
    shelf.delete(key);
    newRevision(state, 'admin', by, [{ key, action: 'delete', fields: [] }]);
    return { body: { key: `/apisix/${key}`, deleted: '1' } };
  }
  const value = JSON.parse(call.text);
  const next = method === 'PATCH' ? { ...item?.value, ...value } : value;
  const faults = check(state, key, next);
  if (faults.length > 0) return { status: 400, body: { error_msg: `invalid configuration: ${faults[0].pointer}: ${faults[0].reason}`, faults } };
  const before = item?.value;
  write(state, kind, id, next, by);
  newRevision(state, 'admin', by, [{ key, action: before ? 'change' : 'create', fields: fields(before, next) }]);
  shelf.get(key).index = state.revision;
  return { status: before ? 200 : 201, body: answer(shelf.get(key)), headers: { ETag: `"${state.revision}"`, 'X-Weir-Revision': String(state.revision) } };
}

const LINKS = { upstream_id: 'upstreams', service_id: 'services', plugin_config_id: 'plugin_configs', group_id: 'consumer_groups' };

function usage(state, kind, id) {
  const shelf = shelfOf(state);
  const of = (item) => Object.entries(LINKS).filter(([name]) => item.value[name] !== undefined).map(([name, to]) => ({ kind: to, id: String(item.value[name]), pointer: `/${name}` }));
  const own = shelf.get(`${kind}/${id}`);
  const used_by = [];
  for (const item of shelf.values()) for (const link of of(item)) if (link.kind === kind && link.id === id) used_by.push({ kind: item.kind, id: item.id, pointer: link.pointer });
  return { body: { uses: own ? of(own) : [], used_by: used_by.slice(0, 500), total: used_by.length } };
}

function versions(call, parts) {
  const { state, query } = call;
  const shelf = shelfOf(state);
  if (parts.length === 2) {
    const key = query.get('key');
    const by = query.get('by');
    let found = state.versions.map((each) => ({ ...each, changes: undefined }));
    if (key) found = found.filter((each) => state.changesOf.get(each.version)?.some((change) => change.key === key));
    if (by) found = found.filter((each) => each.by.includes(by));
    return { body: { revision: state.revision, oldest: 3871, versions: found } };
  }
  const version = Number(parts[2]);
  const found = state.versions.find((each) => each.version === version);
  if (!found) return { status: 404, body: { error_msg: `revision ${version} is not kept; the oldest one is 3871`, oldest: 3871 } };
  if (parts[3] === 'objects') {
    const key = parts.slice(4).join('/');
    const value = structuredClone(shelf.get(key)?.value ?? null);
    if (key === 'routes/checkout' && value && version === 4126) value.plugins['limit-count'].count = 10;
    return { body: { version, key, value: hide(value) } };
  }
  const changes = state.changesOf.get(version) ?? [{ key: 'routes/search', action: 'change', fields: [{ pointer: '/priority', before: 0, after: 10 }] }];
  return { body: { ...found, changes, total: changes.length, offset: 0 } };
}

function verdicts(state) {
  const bad = [...shelfOf(state).values()].filter((item) => item.state === 'last_good' || item.state === 'out');
  const cut = (reason) => ({ pointer: reason.split(': ')[0], reason: reason.split(': ').slice(1).join(': ') });
  return { body: { revision: state.revision, total: bad.length, list: bad.map((item) => ({ kind: item.kind, id: item.id, state: item.state, revision_in_force: item.state === 'last_good' ? 3990 : null, revision_written: 4121, faults: [cut(item.reason)], skipped_plugins: [], warnings: [] })), source_faults: state.sourceFaults ?? [] } };
}

/** Answers a call, or nothing when the path is of another part. */
export async function handle(call) {
  const { path, state, query, method } = call;
  const parts = path.split('/').filter(Boolean);
  const shelf = shelfOf(state);
  if (parts[0] === 'weir') {
    const [, what, ...rest] = parts;
    if (what === 'objects') return list(call, rest[0]);
    if (what === 'usage') return usage(state, rest[0], rest.slice(1).join('/'));
    if (what === 'verdicts' && rest.length > 1) {
      const bad = verdicts(state).body.list.find((each) => each.kind === rest[0] && each.id === rest.slice(1).join('/'));
      const good = shelf.has(rest.join('/')) ? { kind: rest[0], id: rest.slice(1).join('/'), state: 'in_force', revision_in_force: 4119, revision_written: 4119, faults: [], skipped_plugins: [], warnings: [] } : null;
      return bad || good ? { body: bad ?? good } : { status: 404, body: { error_msg: 'no such object' } };
    }
    if (what === 'verdicts') return verdicts(state);
    if (what === 'versions') return versions(call, parts);
    if (what === 'plan') {
      if (query.get('from') || query.get('to')) {
        const changes = state.changesOf.get(4126);
        return { body: { revision: state.revision, create: 1, change: 1, delete: 1, objects: changes } };
      }
      const set = readSet(call.text);
      return set.status ? set : planOf(state, set, query.get('keep_others') === 'true');
    }
    if (what === 'apply') return apply(call, query.get('keep_others') === 'true');
    if (what === 'rollback') {
      const expected = query.get('expect');
      if (expected && Number(expected) !== state.revision) return { status: 409, body: { error_msg: `the configuration is at revision ${state.revision}, not at ${expected}: it was changed in the meantime; make a new plan`, revision: state.revision } };
      const before = state.revision;
      return { body: { before, revision: newRevision(state, 'rollback', call.headers['x-weir-author'] ?? 'admin', state.changesOf.get(4126)), create: 1, change: 1, delete: 1, objects: state.changesOf.get(4126) } };
    }
    if (what === 'plugins') {
      const uses = (name) => [...shelf.values()].filter((item) => item.value.plugins?.[name] !== undefined).map(({ kind, id }) => ({ kind, id }));
      const all = catalogue(uses);
      if (!rest[0]) return { body: { list: all } };
      const found = all.find((each) => each.name === rest[0]);
      return found ? { body: pluginPage(found, uses(found.name).slice(0, 500)) } : { status: 404, body: { error_msg: `there is no plugin ${rest[0]}` } };
    }
    if (what === 'certificates') {
      const certificates = [...shelf.values()].filter((item) => item.kind === 'ssls').map((item) => ({ id: item.id, kind: 'ssls', names: item.names ?? item.value.snis ?? [], issuer: item.issuer ?? 'R11', subject: (item.names ?? ['?'])[0], not_before_ms: NOW_MS - 60 * 86_400_000, not_after_ms: item.not_after_ms ?? NOW_MS + 80 * 86_400_000, key_type: 'ECDSA P-256', state: (item.not_after_ms ?? Infinity) - NOW_MS < 14 * 86_400_000 ? 'soon' : 'in_force', routes: 3 }));
      return { body: { list: certificates, total: certificates.length } };
    }
    if (what === 'search') {
      const q = (query.get('q') ?? '').toLowerCase();
      const found = [...shelf.values()].filter((item) => `${item.id} ${item.value.name ?? ''} ${item.value.uri ?? ''}`.toLowerCase().includes(q)).slice(0, 20);
      return { body: { list: found.map((item) => ({ kind: item.kind, id: item.id, name: item.value.name ?? null, hint: item.value.uri ? `${(item.value.methods ?? ['any']).join(' ')} ${item.value.host ?? ''}${item.value.uri}` : null })), more: false } };
    }
    return undefined;
  }
  if (path === 'openapi.json') return { body: openapi };
  if (parts[0] === 'schema' && parts[1] === 'validate') return { status: 200, body: undefined };
  if (parts[0] === 'schema') {
    const found = parts[1] === 'plugins' ? state.plugins[parts[2]]?.schema : schemaOf(parts[1]);
    return found ? { body: found } : { status: 400, body: { error_msg: `not found schema: ${parts[1]}` } };
  }
  if (parts[0] === 'plugins' && query.get('all') === 'true') return { body: state.plugins };
  if (KINDS.includes(parts[0]) && parts.length > 1) {
    const [kind, ...rest] = parts;
    if (kind === 'consumers' && rest.length === 2 && rest[1] === 'credentials') {
      const found = [...shelf.values()].filter((item) => item.kind === kind && item.id.startsWith(`${rest[0]}/credentials/`));
      return { body: { total: found.length, list: found.map((item) => ({ key: `/apisix/${kind}/${item.id}`, value: { ...item.value, id: item.id.split('/').at(-1) }, createdIndex: item.index, modifiedIndex: item.index })) } };
    }
    return single(call, kind, rest.join('/'));
  }
  if (KINDS.includes(parts[0]) && method === 'POST') {
    const id = String(state.revision + 1).padStart(20, '0');
    return single({ ...call, method: 'PUT' }, parts[0], id);
  }
  return undefined;
}
