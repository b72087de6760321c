/** Endpoints that die, and Explain against what the proxy does. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, test } from 'node:test';
import { browser } from '../e2e/lib.mjs';
import { admin, closingEndpoint, served, skip, target, until, walk } from './parts.mjs';

let chromium;
before(async () => {
  if (skip) return;
  chromium = await browser();
  await admin('PUT', 'upstreams/live-good', { type: 'roundrobin', nodes: { [target.origin]: 1 } });
});
after(() => chromium?.close());

test('topology_marks_dead_endpoint', { skip }, async () => {
  const dying = await closingEndpoint();
  const checks = { active: { type: 'tcp', healthy: { interval: 1, successes: 1 }, unhealthy: { interval: 1, tcp_failures: 1 } } };
  await admin('PUT', 'upstreams/live-dying', { type: 'roundrobin', nodes: { [target.origin]: 1, [dying.address]: 1 }, checks });
  await admin('PUT', 'routes/live-dying', { uri: '/live/dying/*', upstream_id: 'live-dying' });
  const { page, done } = await walk(chromium.context, '/ui/upstreams/live-dying?tab=endpoints');
  const other = await walk(chromium.context, '/ui/overview');
  const row = page.getByRole('row', { name: new RegExp(dying.address) });
  await row.getByText('up', { exact: true }).waitFor();
  await dying.close();
  const mark = await until(() => row.getByText(/down since/).isVisible(), 4000, 'the mark of the endpoint turns');
  const line = await until(() => other.page.getByText('1 of 2 endpoints of upstream live-dying is down.').isVisible(), 4000, 'the overview says so');
  console.log(`dead endpoint: mark after ${mark} ms, attention ${line} ms later`);
  await page.getByRole('tab', { name: 'Topology' }).click();
  await page.locator(`.topology-box[aria-label^="${dying.address} "][aria-label*=", down"]`).waitFor();
  await other.page.getByRole('link', { name: 'Open upstream' }).first().click();
  await other.page.waitForURL(/\/ui\/upstreams\/live-dying/);
  await other.done();
  await done();
  await admin('DELETE', 'routes/live-dying');
  await admin('DELETE', 'upstreams/live-dying');
});

test('explain_equals_serving', { skip }, async () => {
  const rules = [
    { uri: '/equal/*' }, { uri: '/equal/a/*' }, { uri: '/equal/a/exact' }, { uri: '/equal/b/*', methods: ['POST'] }, { uri: '/equal/b/*', host: '*.equal.example' },
    { uri: '/equal/c/*', vars: [['arg_v', '==', '2']] }, { uri: '/equal/c/*', priority: 5, vars: [['http_x_beta', '==', 'yes']] }, { uris: ['/equal/d', '/equal/d/*'], host: 'd.equal.example' },
  ];
  for (const [at, rule] of rules.entries()) {
    await admin('PUT', `routes/equal-${at}`, { ...rule, upstream_id: 'live-good', plugins: { 'response-rewrite': { headers: { set: { 'x-route': `equal-${at}` } } } } });
  }
  await served('/equal/last', 200);
  const paths = ['/equal/x', '/equal/a/x', '/equal/a/exact', '/equal/b/x', '/equal/c/x?v=1', '/equal/c/x?v=2', '/equal/d', '/equal/d/x', '/none/x', '/equal'];
  const kinds = [{ method: 'GET', headers: { host: 'walk.example' } }, { method: 'POST', headers: { host: 'one.equal.example' } }, { method: 'GET', headers: { host: 'd.equal.example', 'x-beta': 'yes' } }];
  const [host, port] = target.proxy.split(':');
  const named = (path, { method, headers }) => new Promise((resolve, reject) => {
    request({ host, port, path, method, headers, agent: false }, (response) => response.resume().on('end', () => resolve(response.headers['x-route'] ?? null))).on('error', reject).end();
  });
  let asked = 0;
  const seen = new Set();
  for (const path of paths) {
    for (const kind of kinds) {
      const serving = await named(path, kind);
      const { host: name, ...rest } = kind.headers;
      const told = await admin('POST', 'weir/explain', { method: kind.method, url: `http://${name}${path}`, headers: Object.entries(rest) });
      assert.equal(told.matched?.id ?? null, serving, `${kind.method} ${name}${path}`);
      seen.add(serving);
      asked += 1;
    }
  }
  assert.equal(asked, 30);
  assert.ok(seen.size >= 8, [...seen].join());
  const { page, done } = await walk(chromium.context, '/ui/explain?url=http://d.equal.example/equal/d/x');
  await page.getByRole('region', { name: 'Route' }).getByRole('link', { name: 'equal-7' }).waitFor();
  await done();
});
