/** Endpoints about what runs now: session, overview, top, tap, failures, explain, upstreams, topology, events. */
import { NOW_MS, random } from './data.mjs';

const FIELDS = ['status', 'method', 'host', 'path', 'route', 'service', 'consumer', 'upstream', 'endpoint', 'cause', 'client', 'took', 'bytes', 'protocol', 'worker'];

export async function handle(call, response, open) {
  const { path, state, query } = call;
  switch (path) {
    case 'weir/session': return { body: session(call) };
    case 'weir/status': return { body: status(state) };
    case 'weir/overview': return { body: overview(state, Number(query.get('minutes') ?? 60)) };
    case 'weir/top': return { body: { window_s: 60, list: state.top(query.get('by') ?? 'routes').slice(0, Number(query.get('limit') ?? 20)), other: { rps: 42, count: 10_424 } } };
    case 'weir/tap': return tap(call, response, open);
    case 'weir/failures': return failures(call);
    case 'weir/events': return events(call, response, open);
    case 'weir/explain': return explain(call);
    case 'weir/upstreams': return { body: { total: state.upstreams.length, list: state.upstreams } };
    case 'weir/topology': return topology(call);
    default: break;
  }
  const one = /^weir\/upstreams\/(?:upstreams\/)?([^/]+)$/.exec(path);
  if (one) {
    const found = state.upstreams.find((each) => each.name === `/upstreams/${one[1]}`);
    return found ? { body: found } : { status: 404, body: { error_msg: `no upstream is in force at /upstreams/${one[1]}` } };
  }
  return undefined;
}

function session({ role, state }) {
  return {
    role, name: null, version: '0.2.0', emulates: '3.18.0', instance: 'edge-fra-1', source: 'store', writable: role === 'admin',
    started_ms: NOW_MS - 3 * 86_400_000,
    listeners: [{ name: 'proxy', address: '127.0.0.1:9080', tls: false }, { name: 'proxy-tls', address: '127.0.0.1:9443', tls: true }],
    features: ['tap', 'explain', 'topology'],
    kinds: ['routes', 'services', 'upstreams', 'consumers', 'consumer_groups', 'plugin_configs', 'global_rules', 'ssls', 'secrets', 'protos', 'plugin_metadata'],
    ...state.session,
  };
}

function status(state) {
  return {
    revision: state.revision,
    workers: [0, 1, 2, 3].map((worker) => ({ worker, revision: state.revision })),
    objects: state.counts,
    faults: Array.from({ length: state.faults }, () => ({ reason: 'faulty' })),
  };
}

function last(values) {
  return values[values.length - 1] ?? null;
}

function overview(state, minutes) {
  const points = Math.min(360, Math.max(30, minutes * 6));
  const end_ms = NOW_MS - (NOW_MS % 10_000);
  const cut = Object.fromEntries(Object.entries(state.series).map(([name, values]) => [name, values.slice(-points)]));
  return {
    seq: 412_700, step_ms: 10_000, end_ms, series: cut, now: now(state),
    marks: state.versions.filter((each) => each.at_ms > end_ms - points * 10_000).map(({ version, at_ms, by }) => ({ revision: version, at_ms, by })).reverse(),
    attention: state.attention,
    workers: [0, 1, 2, 3].map((worker) => ({ worker, revision: state.revision })),
    revision: state.revision,
  };
}

function now(state) {
  const point = Object.fromEntries(Object.entries(state.series).map(([name, values]) => [name, last(values)]));
  return {
    ...point, req_2xx: 8760, req_3xx: 310, req_4xx: 319, req_5xx: 23, requests: 9412, p50_us: 4200, p90_us: 15_100, p99_us: 52_300,
    in_flight: 388, connections: 2140, cpu: 1.32, rss: 86 * 1048576, cores: 4, memory_limit: 512 * 1048576, log_lines_lost: 0, requests_total: 812_441_201,
    ...state.now,
  };
}

function stream(response, open) {
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
  open.add(response);
  response.on('close', () => open.delete(response));
  return (event, data) => response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

function tap({ query, state }, response, open) {
  const fault = queryFault(query.get('q') ?? '', FIELDS);
  if (fault) return { status: 400, body: fault };
  const wanted = matcher(query.get('q') ?? '');
  const send = stream(response, open);
  const matching = state.requests.filter(wanted);
  for (const each of [...matching].reverse()) send('request', each);
  send('count', { seen: 9412, matched: matching.length === state.requests.length ? 9412 : 1906, sent: Math.min(50, matching.length), dropped: 0, sampled: 1 });
  state.tapsOpen = (state.tapsOpen ?? 0) + 1;
  const sender = { topic: 'tap', send };
  state.senders.add(sender);
  let timer;
  if (state.live) {
    let serial = 0;
    const next = random(99);
    timer = setInterval(() => {
      for (let at = 0; at < 5; at += 1) {
        const base = state.requests[Math.floor(next() * state.requests.length)];
        serial += 1;
        if (wanted(base)) send('request', { ...base, id: `${base.id}-${serial}`, t_ms: Date.now() });
      }
      send('count', { seen: 9400 + Math.round(next() * 40), matched: 9412, sent: 5, dropped: 0, sampled: 1 });
    }, 1000);
  }
  response.on('close', () => {
    state.tapsOpen -= 1;
    state.senders.delete(sender);
    clearInterval(timer);
  });
  return 'stream';
}

function failures({ query, state }) {
  const fault = queryFault(query.get('q') ?? '', FIELDS);
  if (fault) return { status: 400, body: fault };
  const list = (state.failures ?? state.requests.filter((each) => each.status >= 500)).filter(matcher(query.get('q') ?? ''));
  return { body: { list, lost: 0 } };
}

function events({ state }, response, open) {
  const send = stream(response, open);
  send('sample', { seq: 412_700, end_ms: NOW_MS, now: now(state) });
  const sender = { topic: 'events', send };
  state.senders.add(sender);
  const timer = state.live ? setInterval(() => send('sample', { seq: 412_701, end_ms: Date.now(), now: now(state) }), 1000) : undefined;
  response.on('close', () => {
    state.senders.delete(sender);
    clearInterval(timer);
  });
  return 'stream';
}

/** What is wrong with a query, as the server says it: an unknown field with its place. */
export function queryFault(q, fields) {
  const words = /\S+/g;
  for (let match = words.exec(q); match; match = words.exec(q)) {
    const word = match[0].replace(/^-/, '');
    const colon = word.indexOf(':');
    if (colon > 0 && !word.startsWith('"') && !fields.includes(word.slice(0, colon))) {
      return { error_msg: `there is no field ${word.slice(0, colon)}`, at: match.index, expected: fields };
    }
  }
  return null;
}

/** A small part of the query grammar: words and `field:value` with `*`, commas and comparisons. */
export function matcher(q) {
  const tests = (q.match(/\S+/g) ?? []).map((word) => {
    const negated = word.startsWith('-');
    const bare = negated ? word.slice(1) : word;
    const colon = bare.indexOf(':');
    const test = colon < 0
      ? (each) => `${each.method} ${each.host}${each.path} ${each.route ?? ''} ${each.id}`.toLowerCase().includes(bare.toLowerCase())
      : (each) => bare.slice(colon + 1).split(',').some((value) => holds(each, bare.slice(0, colon), value));
    return (each) => test(each) !== negated;
  });
  return (each) => tests.every((test) => test(each));
}

function holds(each, field, value) {
  const of = field === 'took' ? each.total_us / 1000 : each[field];
  const comparison = /^(>=|<=|>|<)([\d.]+)/.exec(value);
  if (comparison) {
    const limit = Number(comparison[2]);
    const number = Number(of);
    return { '>=': number >= limit, '<=': number <= limit, '>': number > limit, '<': number < limit }[comparison[1]];
  }
  const pattern = new RegExp(`^${value.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&')).join('.*')}$`, 'i');
  return pattern.test(String(of ?? ''));
}

function explain({ text, state }) {
  let asked;
  try {
    asked = JSON.parse(text);
  } catch {
    return { status: 400, body: { error_msg: 'the body is no question: not JSON' } };
  }
  let url;
  try {
    url = new URL(asked.url, 'http://shop.example');
  } catch {
    return { status: 400, body: { error_msg: 'it would be refused with 400: the target is no URL' } };
  }
  state.lastQuestion = asked;
  const considered = [
    { id: 'checkout', name: 'checkout', path: '/checkout/*', host: 'shop.example', verdict: 'matched', by: null },
    { id: 'shop-all', name: 'shop-all', path: '/*', host: 'shop.example', verdict: 'outranked', by: 'checkout' },
    { id: 'legacy', name: 'legacy', path: '/checkout/*', host: null, verdict: 'method', by: null },
    { id: 'beta', name: 'beta', path: '/checkout/*', host: 'shop.example', verdict: 'vars', by: null, detail: 'vars ["arg_b","==","1"] is false' },
  ];
  if (!url.pathname.startsWith('/checkout')) {
    return {
      body: {
        revision: state.revision, request: { host: url.host, path: url.pathname }, matched: null, closed: null,
        considered: considered.slice(1), considered_total: 3, unplaced: [], faulty: [], pipeline: [], forwarded: null, upstream: null,
      },
    };
  }
  return {
    body: {
      revision: state.revision,
      request: { host: url.host, path: url.pathname },
      listener: 'proxy-tls 0.0.0.0:9443, HTTP/2, SNI shop.example → certificate *.shop.example',
      matched: { id: 'checkout', service_id: 'checkout', upstream_id: 'orders', plugins: ['jwt-auth', 'forward-auth', 'limit-count'], params: {} },
      closed: null,
      considered,
      considered_total: 4,
      unplaced: [],
      faulty: [{ key: 'routes/pay-v2', reason: '/upstream_id: upstream nope does not exist' }],
      pipeline: [
        { plugin: 'jwt-auth', phase: 'rewrite', from: 'route', runs: true, why: 'consumer mobile-app', would: null },
        { plugin: 'forward-auth', phase: 'access', from: 'service', runs: null, why: null, would: { action: 'call', status: null, text: 'it would ask http://auth/check' } },
        { plugin: 'limit-count', phase: 'access', from: 'route', runs: true, why: null, would: { action: 'count', status: null, text: '41 of 100 left for 198.51.100.24' } },
        { plugin: 'ip-restriction', phase: 'access', from: 'global_rule', runs: false, why: '_meta.filter is false', would: null },
      ],
      forwarded: { method: asked.method, url: `http://orders/v2${url.pathname.replace('/checkout/', '/')}`, headers: [['host', 'orders'], ['x-request-id', '…'], ['x-forwarded-for', '198.51.100.24']] },
      upstream: {
        id: 'orders', type: 'least_conn',
        candidates: [
          { address: '10.0.4.12:8080', state: 'usable', share: 38 }, { address: '10.0.4.13:8080', state: 'usable', share: 34 },
          { address: '10.0.4.14:8080', state: 'usable', share: 28 }, { address: '10.0.4.17:8080', state: 'unhealthy', share: 0 },
        ],
      },
    },
  };
}

function topology({ query }) {
  const focus = query.get('focus') ?? '';
  if (!focus.includes('/')) return { status: 400, body: { error_msg: 'focus must be KIND/ID' } };
  const nodes = [];
  const add = (kind, id, state, rps, p5xx, name = null) => nodes.push({ kind, id, name, state, rps, p5xx }) - 1;
  const routes = [['checkout', 1906, 1.84], ['orders-api', 486, 0.31], ['invoices', 84, 0], ['returns', 41, 0], ['admin-orders', 12, 0]];
  const services = [add('services', 'checkout', 'up', 1947, 1.8), add('services', 'orders', 'up', 582, 0.3)];
  const upstream = add('upstreams', 'orders', 'up', 2572, 1.4);
  const edges = [];
  for (const [id, rps, p5xx] of routes) {
    const at = add('routes', id, 'up', rps, p5xx, id);
    edges.push({ from: at, to: services[['checkout', 'returns'].includes(id) ? 0 : 1], rps });
  }
  edges.push({ from: services[0], to: upstream, rps: 1947 }, { from: services[1], to: upstream, rps: 582 });
  for (const [address, rps, state, p5xx] of [['10.0.4.12:8080', 640, 'up', 0], ['10.0.4.13:8080', 612, 'up', 0.1], ['10.0.4.14:8080', 598, 'up', 0], ['10.0.4.17:8080', 0, 'down', 0], ['10.0.4.18:8080', 118, 'down', 12.4], ['10.0.4.19:8080', 604, 'up', 0]]) {
    edges.push({ from: upstream, to: add('endpoints', address, state, rps, p5xx), rps });
  }
  return { body: { nodes, edges, folded: { routes: 7 } } };
}
