/** The accessibility checks of the pages: the data, axe in both themes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AXE, OF_COLOURS, findingsInBothThemes } from '../e2e/axe.mjs';
import { browser, settled, visit } from '../e2e/lib.mjs';
import { admin, closingEndpoint, proxied, served, skip, target, walk } from './parts.mjs';

/** Objects of most kinds and some traffic; answers with the endpoint that fails, which the caller closes. */
async function fill() {
  const broken = await closingEndpoint();
  await admin('PUT', 'upstreams/axe', { type: 'roundrobin', retries: 0, nodes: { [target.origin]: 3, [broken.address]: 1 }, checks: { active: { type: 'tcp', unhealthy: { interval: 1, tcp_failures: 1 } } } });
  await admin('PUT', 'services/axe', { name: 'axe', upstream_id: 'axe', plugins: { 'request-id': {} } });
  await admin('PUT', 'routes/axe', { name: 'axe', uri: '/axe/*', service_id: 'axe', labels: { team: 'a' }, plugins: { 'limit-count': { count: 100000, time_window: 60 } } });
  await admin('PUT', 'routes/axe-off', { uri: '/off', status: 0, upstream: { type: 'roundrobin', nodes: { [target.origin]: 1 } } });
  await admin('PUT', 'consumers', { username: 'axe', plugins: { 'key-auth': { key: 'the-key-of-axe' } } });
  await admin('PUT', 'global_rules/axe', { plugins: { 'real-ip': { source: 'http_x_real_ip' } } });
  await served('/axe/first');
  for (let at = 0; at < 40; at += 1) await proxied(`/axe/${at}`);
  await proxied('/none');
  return broken;
}

/** Walks through the pages; every finding fails. */
async function check(context, pages, { width = 1440, height = 900 } = {}) {
  const { page, done } = await walk(context, '/ui/overview', { width, height });
  await page.evaluate(AXE);
  const all = [];
  for (const path of pages) {
    await visit(page, `/${path}`);
    await settled(page);
    all.push(...(await findingsInBothThemes(page, path, OF_COLOURS)));
  }
  assert.deepEqual([...new Set(all)], []);
  await done();
}

/** A test that axe finds nothing on these pages of a running gateway. */
export function findsNothing(name, pages, size) {
  test(name, { skip }, async () => {
    const chromium = await browser();
    const broken = await fill();
    try {
      await check(chromium.context, pages, size);
    } finally {
      await chromium.close();
      await broken.close();
    }
  });
}
