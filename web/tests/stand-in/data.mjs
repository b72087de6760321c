/** Fixed data of the stand-in: one hour of figures, requests with timelines, upstreams. */

export const NOW_MS = Date.UTC(2026, 10, 24, 14, 2, 11, 482);
const MINUTE = 60_000;

/** Random numbers that are the same in every run. */
export function random(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function series() {
  const next = random(7);
  const names = ['req_2xx', 'req_3xx', 'req_4xx', 'req_5xx', 'p50_us', 'p90_us', 'p99_us', 'cpu', 'rss', 'in_flight', 'connections'];
  const out = Object.fromEntries(names.map((name) => [name, []]));
  let drift = 0;
  for (let at = 0; at < 360; at += 1) {
    drift = drift * 0.9 + (next() - 0.5) * 120;
    const wave = 9000 + 550 * Math.sin(at / 57 + 0.4) - 280 * Math.sin(at / 130 - 1) + drift;
    const burst = at >= 240 && at < 276;
    out.req_2xx.push(Math.round(wave * 0.935));
    out.req_3xx.push(Math.round(wave * 0.035 + next() * 20));
    out.req_4xx.push(Math.round(wave * 0.03 + next() * 60));
    out.req_5xx.push(Math.round(burst ? 180 + next() * 160 : next() * 6));
    out.p50_us.push(Math.round(4100 + next() * 500));
    out.p90_us.push(Math.round((burst ? 22_000 : 14_500) + next() * 1900));
    out.p99_us.push(Math.round((burst ? 110_000 : 46_000) + next() * 7000 + drift * 8));
    out.cpu.push(+(1.28 + next() * 0.1 + (burst ? 0.08 : 0)).toFixed(3));
    out.rss.push(Math.round((85.2 + next() * 0.9) * 1048576));
    out.in_flight.push(Math.round(370 + next() * 40 + (burst ? 40 : 0)));
    out.connections.push(Math.round(2100 + next() * 80));
  }
  return out;
}

const ATTENTION = [
  { severity: 'err', what: 'endpoints_down', title: '2 of 6 endpoints of upstream orders are down.', detail: '10.0.4.17:8080 connect_failed, 10.0.4.18:8080 closed early; since 13:42:10', link: '/upstreams/orders?tab=endpoints' },
  { severity: 'warn', what: 'last_good', title: 'Route legacy-soap runs its last good form of r3990.', detail: '/plugins/limit-count/count: expected a number, found a text', link: '/faults' },
  { severity: 'warn', what: 'certificate', title: 'Certificate *.partner.example expires in 6 days.', detail: '3 routes answer for it', link: '/ssls/partner' },
];

const TOP_ROUTES = [
  ['shop-read', 'shop-read', 'GET shop.example/shop/*', 4210, 44, 0.4, 0.02, 11_800],
  ['checkout', 'checkout', 'POST shop.example/checkout/*', 1906, 20, 1.1, 1.84, 212_000],
  ['search', 'search', 'GET shop.example/search', 1388, 15, 0.1, 0, 38_400],
  ['assets', 'assets', 'GET cdn.shop.example/*', 1102, 12, 2.0, 0, 2_100],
  ['orders-api', 'orders-api', 'any api.shop.example/orders/*', 486, 5, 3.3, 0.31, 64_000],
  ['partner-feed', 'partner-feed', 'GET partner.example/feed/*', 118, 1, 12.0, 0, 141_000],
  ['recommend', 'recommend', 'GET shop.example/recommend/*', 96, 1, 0, 0, 71_000],
  ['graphql', 'graphql', 'POST shop.example/graphql', 64, 0.7, 0.2, 0, 88_000],
];
const TOP_CONSUMERS = [
  ['mobile-app', 2640, 28, 1.0, 0.4, 51_000],
  ['web-shop', 2210, 23.4, 0.4, 0.1, 33_000],
  ['partner-sync', 640, 6.8, 9.4, 0, 140_000],
  ['reporting', 41, 0.4, 0, 0, 310_000],
];
const TOP_ENDPOINTS = [
  ['10.0.4.12:8080', 'orders', 640, 6.8, 0.2, 0.0, 58_000],
  ['10.0.4.13:8080', 'orders', 612, 6.5, 0.2, 0.1, 61_000],
  ['10.0.4.18:8080', 'orders', 118, 1.3, 0, 12.4, 212_000],
  ['10.0.7.2:8080', 'catalog', 540, 5.7, 0, 0, 9_000],
];
const TOP_CAUSES = [
  ['key-auth', 118, 36.6], ['route_not_found', 91, 28.2], ['limit-count', 74, 23], ['origin_closed', 23, 7.1], ['connect_failed', 16, 5],
];

function top(by) {
  if (by === 'routes') {
    return TOP_ROUTES.map(([id, name, match, rps, share, p4xx, p5xx, p99_us]) => ({ id, name, match, rps, share, p4xx, p5xx, p99_us, bytes: rps * 8200 }));
  }
  if (by === 'consumers') {
    return TOP_CONSUMERS.map(([id, rps, share, p4xx, p5xx, p99_us]) => ({ id, name: null, match: null, rps, share, p4xx, p5xx, p99_us, bytes: rps * 7000 }));
  }
  if (by === 'endpoints') {
    return TOP_ENDPOINTS.map(([id, upstream, rps, share, p4xx, p5xx, p99_us]) => ({ id, upstream, name: null, match: null, rps, share, p4xx, p5xx, p99_us, bytes: rps * 8200 }));
  }
  return TOP_CAUSES.map(([id, rps, share]) => ({ id, name: null, match: null, rps, share, p4xx: null, p5xx: null, p99_us: null, bytes: null }));
}

function node(address, more = {}) {
  return {
    address, host: address.split(':')[0], weight: 1, priority: 0, state: 'usable', in_flight: 0, ewma_ms: null,
    rps: 0, p5xx: 0, p99_us: null, idle: 0, last_failure: null, ...more,
  };
}

function upstreams() {
  const next = random(3);
  const many = (count, net, rps) =>
    Array.from({ length: count }, (_, at) =>
      node(`${net}.${at + 2}:8080`, {
        in_flight: Math.round(next() * 14), ewma_ms: +(4 + next() * 8).toFixed(2), rps: Math.round(rps * (0.8 + next() * 0.4)),
        p5xx: 0, p99_us: Math.round(9000 + next() * 9000), idle: Math.round(8 + next() * 20),
      }));
  return [
    {
      name: '/upstreams/orders', type: 'least_conn', scheme: 'http', checks: 'http',
      nodes: [
        node('10.0.4.12:8080', { in_flight: 12, ewma_ms: 21.4, rps: 640, p5xx: 0, p99_us: 58_000, idle: 18 }),
        node('10.0.4.13:8080', { in_flight: 11, ewma_ms: 22.9, rps: 612, p5xx: 0.1, p99_us: 61_000, idle: 21 }),
        node('10.0.4.14:8080', { in_flight: 9, ewma_ms: 20.2, rps: 598, p5xx: 0, p99_us: 55_000, idle: 16 }),
        node('10.0.4.17:8080', { state: 'unhealthy', unhealthy: { since: '2026-11-24T13:42:10Z', why: 'connect_failed, refused' }, last_failure: { cause: 'connect_failed', at_ms: NOW_MS - 1400 } }),
        node('10.0.4.18:8080', { state: 'ejected', ejected: { since: '2026-11-24T13:42:31Z', why: '5 failures in a row' }, rps: 118, p5xx: 12.4, p99_us: 212_000, in_flight: 2, idle: 1, last_failure: { cause: 'origin_closed', at_ms: NOW_MS - 300 } }),
        node('10.0.4.19:8080', { in_flight: 10, ewma_ms: 21.1, rps: 604, p5xx: 0, p99_us: 57_000, idle: 19 }),
      ],
    },
    { name: '/upstreams/catalog', type: 'roundrobin', scheme: 'http', nodes: many(8, '10.0.7', 540) },
    { name: '/upstreams/payments', type: 'roundrobin', scheme: 'https', nodes: many(5, '10.0.9', 30).map((each, at) => (at === 2 ? { ...each, state: 'warming' } : each)) },
    { name: '/upstreams/search', type: 'chash', scheme: 'http', nodes: many(12, '10.0.12', 115) },
  ];
}

const spans = {
  ok: (total, gateway) => [
    span('read head', 'client', 0, 60), span('match route', 'gateway', 60, 20), span('key-auth', 'gateway', 80, Math.max(40, gateway - 140)),
    span('connect', 'attempt 1 10.0.7.2:8080', gateway, 120), span('wait for head', 'attempt 1 10.0.7.2:8080', gateway + 120, Math.max(100, total - gateway - 260)),
    span('write to client', 'response', total - 100, 90), span('log', 'log', total - 10, 8),
  ],
  retry: [
    span('read head', 'client', 0, 120), span('match route', 'gateway', 120, 20), span('jwt-auth', 'gateway', 140, 60),
    span('forward-auth', 'gateway', 200, 6410), span('limit-count', 'gateway', 6610, 1730, false, 'redis'),
    span('connect', 'attempt 1 10.0.4.17:8080', 8440, 1100, true, 'connect_failed'),
    span('connect', 'attempt 2 10.0.4.18:8080', 9640, 900), span('send 1.2 kB', 'attempt 2 10.0.4.18:8080', 10_540, 100),
    span('wait for head', 'attempt 2 10.0.4.18:8080', 10_640, 27_400, true, 'origin_closed'),
    span('prometheus', 'response', 38_060, 20), span('write to client', 'response', 38_080, 100),
  ],
};
function span(name, group, at_us, us, failed = false, detail = null) {
  return { name, group, at_us, us, failed, detail };
}

function record(at, status, method, path, total_us, more = {}) {
  const gateway = more.gateway_us ?? Math.round(total_us * 0.2);
  return {
    id: `01J9ZK3W7T4C${at.toString(36).toUpperCase().padStart(2, '0')}`, t_ms: NOW_MS - at, worker: at % 4, revision: 4127,
    client: '198.51.100.24', protocol: 'HTTP/2', scheme: 'https', method, host: 'shop.example', path,
    route: 'shop-read', route_name: 'shop-read', service: null, consumer: 'mobile-app', upstream: 'catalog', endpoint: '10.0.7.2:8080',
    status, cause: null, blame: null, phase: null, detail: null, bytes_in: 312, bytes_out: 18_204, total_us, gateway_us: gateway,
    upstream_us: total_us - gateway, attempts: 1, spans: total_us > 400 ? spans.ok(total_us, gateway) : [], ...more,
  };
}

export function requests() {
  const local = (cause, more = {}) => ({ cause, blame: 'client', upstream: null, endpoint: null, attempts: 0, spans: [], upstream_us: 0, ...more });
  return [
    record(0, 502, 'POST', '/checkout/7421/pay', 38_200, {
      route: 'checkout', route_name: 'checkout', upstream: 'orders', endpoint: '10.0.4.18:8080', cause: 'origin_closed', blame: 'upstream',
      detail: 'the endpoint closed the connection before it answered', attempts: 2, gateway_us: 8300, upstream_us: 29_500, bytes_in: 1200, bytes_out: 214, spans: spans.retry, worker: 2,
    }),
    record(11, 200, 'GET', '/shop/books?page=3', 6100, { gateway_us: 900 }),
    record(22, 200, 'GET', '/search?q=lamp', 31_000, { route: 'search', route_name: 'search', upstream: 'search', gateway_us: 1200 }),
    record(30, 502, 'POST', '/checkout/7419/pay', 8900, { route: 'checkout', route_name: 'checkout', upstream: 'orders', endpoint: '10.0.4.17:8080', cause: 'connect_failed', blame: 'upstream', detail: 'connection refused', gateway_us: 8000 }),
    record(42, 304, 'GET', '/img/a1b2.webp', 1200, { gateway_us: 300 }),
    record(51, 200, 'GET', '/orders/9921', 12_400, { gateway_us: 2300 }),
    record(62, 401, 'GET', '/orders/9920', 300, local('key-auth', { gateway_us: 300, consumer: null, route: 'orders-api', route_name: 'orders-api' })),
    record(74, 200, 'POST', '/graphql', 71_800, { gateway_us: 2200 }),
    record(83, 200, 'GET', '/shop/garden', 5800, { gateway_us: 1000 }),
    record(101, 429, 'GET', '/feed/daily.xml', 200, local('limit-count', { gateway_us: 200, host: 'partner.example', route: 'partner-feed', route_name: 'partner-feed' })),
    record(110, 200, 'GET', '/recommend/42', 64_200, { gateway_us: 1500 }),
    record(127, 201, 'PUT', '/upload/img-3311', 812_000, { gateway_us: 30_000 }),
    record(142, 200, 'GET', '/shop/books/17', 7000, { gateway_us: 1100 }),
    record(160, 404, 'GET', '/.env', 100, local('route_not_found', { gateway_us: 100, route: null, route_name: null, consumer: null, client: '203.0.113.77' })),
    record(181, 200, 'GET', '/account/me', 19_600, { gateway_us: 1900 }),
    record(192, 200, 'POST', '/in/stripe', 14_700, { gateway_us: 5500 }),
  ];
}

export const VERSIONS = [
  { version: 4127, parent: 4126, at_ms: NOW_MS - 2 * MINUTE - 9000, source: 'rollback', by: 'ana', objects: 3, to: 4125 },
  { version: 4126, parent: 4125, at_ms: NOW_MS - 14 * MINUTE, source: 'apply', by: 'deploy-bot', objects: 3 },
  { version: 4125, parent: 4124, at_ms: NOW_MS - 39 * MINUTE, source: 'admin', by: 'ana', objects: 1 },
  { version: 4124, parent: 4123, at_ms: NOW_MS - 48 * MINUTE, source: 'admin', by: 'ben', objects: 1 },
  { version: 4123, parent: 4122, at_ms: NOW_MS - 200 * MINUTE, source: 'admin', by: 'ana', objects: 2 },
];

export function makeState() {
  return {
    keys: { admin: 'admin', viewer: 'viewer' },
    revision: 4127,
    series: series(),
    attention: ATTENTION,
    top,
    upstreams: upstreams(),
    requests: requests(),
    failures: null,
    versions: VERSIONS,
    counts: { routes: 10_432, services: 214, upstreams: 388, ssls: 61, consumers: 1204, secrets: 3, plugin_configs: 19, global_rules: 2 },
    faults: 2,
    calls: [],
    /** Whether the streams go on by themselves; pictures need them to stand still. */
    live: false,
    refuseConnections: false,
    /** Called with each open event stream: `(send)`; tests send their own events. */
    senders: new Set(),
  };
}
