/** Keys and roles: a wrong key is refused, a viewer reads only. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, openPage } from '../e2e/lib.mjs';
import { admin, proxied, served, skip, target, walk } from './parts.mjs';

let chromium;
before(async () => {
  if (skip) return;
  chromium = await browser();
  await admin('PUT', 'upstreams/roles', { type: 'roundrobin', nodes: { [target.origin]: 1 } });
  await admin('PUT', 'routes/roles', { name: 'roles', uri: '/roles/*', upstream_id: 'roles' });
  await admin('PUT', 'consumers', { username: 'roles', plugins: { 'key-auth': { key: 'a-secret-of-the-walk' } } });
  await served('/roles/first');
});
after(() => chromium?.close());

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
