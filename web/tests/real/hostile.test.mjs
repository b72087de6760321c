/** Hostile text in every place that the pages show stays text. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, settled, visit } from '../e2e/lib.mjs';
import { admin, closingEndpoint, proxied, served, skip, target, until, walk } from './parts.mjs';

/** Text that would run, break out of an attribute or close a script if it were taken for HTML. */
const HOSTILE = '<script>window.hit=1</script><img src=x onerror="window.hit=1">\'"`';

let chromium;
let broken;
before(async () => {
  if (skip) return;
  chromium = await browser();
  broken = await closingEndpoint();
  await admin('PUT', 'upstreams/roles', { name: HOSTILE, desc: HOSTILE, type: 'roundrobin', nodes: { [target.origin]: 1 }, labels: { team: '<script>window.hit=1</script>' } });
  await admin('PUT', 'upstreams/roles-broken', { name: HOSTILE, type: 'roundrobin', retries: 0, nodes: { [broken.address]: 1 } });
  await admin('PUT', 'services/roles', { name: HOSTILE, desc: HOSTILE, upstream_id: 'roles' });
  await admin('PUT', 'routes/roles', { name: HOSTILE, desc: HOSTILE, uri: '/roles/*', service_id: 'roles', labels: { team: '<script>window.hit=1</script>' } });
  await admin('PUT', 'routes/roles-broken', { name: HOSTILE, uri: '/roles-broken/*', upstream_id: 'roles-broken' });
  await admin('PUT', 'consumers', { username: 'roles', desc: HOSTILE, plugins: { 'key-auth': { key: 'a-secret-of-the-walk' } } });
  await served('/roles/first');
});
after(async () => {
  await chromium?.close();
  await broken?.close();
});

test('script_tags_stay_text', { skip }, async () => {
  const inPath = encodeURIComponent(HOSTILE).replace(/'/g, '%27');
  const { page, faults, done } = await walk(chromium.context, '/ui/traffic');
  await page.getByText('No request passes now.').waitFor();
  const headers = { 'user-agent': HOSTILE, referer: HOSTILE, 'x-forwarded-for': HOSTILE };
  await proxied(`/roles/${inPath}?q=${inPath}`, { headers });
  await proxied('/roles/<script>window.hit=1</script>', { headers }).catch(() => undefined);
  await proxied('/roles-broken/<img/src=x>', { headers }).catch(() => undefined);
  await proxied(`/roles/of-a-host`, { headers: { host: '<script>.example' } }).catch(() => undefined);
  const rows = page.locator('.tap-card [role=row]', { hasText: '/roles' });
  await until(async () => (await rows.count()) >= 2, 5000, 'the requests are on the page');
  for (let at = 0; at < await rows.count(); at += 1) {
    await rows.nth(at).click();
    await page.getByRole('complementary').first().waitFor();
    await page.keyboard.press('Escape');
  }
  const pages = [
    'overview', 'routes', 'routes/roles', 'routes/roles?tab=source', 'routes/roles?tab=history', 'routes/roles?tab=used-by', 'services/roles', 'upstreams', 'upstreams/roles?tab=endpoints',
    'upstreams/roles?tab=topology', 'upstreams/roles?tab=form', 'consumers', 'consumers/roles?tab=form', 'changes', 'faults', `explain?url=http://walk.example/roles/${encodeURIComponent(inPath)}`,
    `routes?q=${encodeURIComponent(HOSTILE)}`, `traffic?q=${encodeURIComponent(HOSTILE)}`, `traffic?request=${encodeURIComponent(HOSTILE)}`, `routes/${encodeURIComponent('<script>')}`,
  ];
  for (const path of pages) {
    await visit(page, `/${path}`);
    await settled(page);
    assert.equal(await page.evaluate(() => window.hit ?? null), null, path);
    assert.equal(await page.locator('main script, main img[src="x"], [role=dialog] script').count(), 0, path);
  }
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Search, jump or run a command' }).fill('<script>');
  await page.getByRole('option').filter({ hasText: 'window.hit=1' }).first().waitFor();
  assert.equal(await page.evaluate(() => window.hit ?? null), null);
  assert.deepEqual(faults, []);
  await done();
});
