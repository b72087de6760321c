/** Keys and roles: a viewer reads only, a wrong key is refused, hostile text stays text on every page. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, openPage, settled } from '../e2e/lib.mjs';
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

test('wrong_key_says_so', { skip }, async () => {
  const { page, faults } = await openPage(chromium.context, target.url);
  await page.goto(`${target.url}/ui/routes`);
  await page.getByLabel('Admin key', { exact: true }).fill('no such key');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').getByText('This key is not known to the instance.').waitFor();
  await page.getByLabel('Admin key', { exact: true }).fill(target.key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Routes', level: 1 }).waitFor();
  assert.deepEqual(faults, []);
  await page.close();
});

test('viewer_cannot_write', { skip: skip || (target.viewerKey === '' ? 'needs WEIR_VIEWER_KEY' : false) }, async () => {
  const { page, done } = await walk(chromium.context, '/ui/routes', { key: target.viewerKey });
  await page.getByRole('button', { name: 'Signed in as viewer' }).waitFor();
  await page.locator('.cell-open').first().waitFor();
  assert.equal(await page.getByRole('button', { name: 'New route' }).count() + await page.getByRole('link', { name: 'New route' }).count(), 0);
  await page.goto(`${target.url}/ui/routes/roles`);
  await page.getByText('This key may only read.').waitFor();
  assert.equal(await page.locator('.w-form input:not([disabled]):not([readonly]), .w-form textarea:not([disabled]):not([readonly])').count(), 0);
  assert.equal(await page.getByRole('button', { name: 'Off', exact: true }).count(), 0);
  await page.goto(`${target.url}/ui/consumers/roles?tab=source`);
  await page.locator('.cm-content').getByText('(hidden)').waitFor();
  assert.ok(!(await page.content()).includes('a-secret-of-the-walk'));
  await page.goto(`${target.url}/ui/explain?url=http://walk.example/roles/x`);
  await page.getByRole('region', { name: 'Endpoint' }).getByText(target.origin).waitFor();
  await page.goto(`${target.url}/ui/traffic`);
  await page.getByText('No request passes now.').waitFor();
  await proxied('/roles/for-viewers?token=of-the-walk');
  await page.getByText('/roles/for-viewers?…').first().waitFor();
  assert.ok(!(await page.content()).includes('of-the-walk'));
  const refused = await fetch(`${target.url}/apisix/admin/routes/of-a-viewer`, { method: 'PUT', headers: { 'x-api-key': target.viewerKey }, body: '{"uri":"/x"}' });
  assert.equal(refused.status, 401);
  await done();
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
    await page.goto(`${target.url}/ui/${path}`);
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
