/** Sign-in, roles, the lost connection. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, instance, isReal, openPage, settled, signIn } from './lib.mjs';

let target;
let chromium;
before(async () => {
  target = await instance();
  chromium = await browser();
});
after(async () => {
  await chromium.close();
  await target.close();
});

test('sign_in_and_out', async () => {
  const { page, faults } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/traffic?q=status:>=500');
  await settled(page);
  assert.match(page.url(), /\/ui\/traffic\?q=status:>=500|\/ui\/traffic\?q=status:%3E=500/, 'the wanted page opens after the sign-in');
  assert.equal(await page.evaluate(() => document.cookie), '');
  assert.ok(!page.url().includes(target.key) || target.key.length < 6);
  await page.getByRole('button', { name: /Signed in as/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.getItem('weir.key')), null);
  assert.deepEqual(faults, []);
  await page.close();
});

test('wrong_key_says_so', async () => {
  const { page } = await openPage(chromium.context, target.url);
  await page.goto(`${target.url}/ui/`);
  await page.getByLabel('Admin key', { exact: true }).fill('no such key');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').getByText('This key is not known to the instance.').waitFor();
  await page.close();
});

test('reload_keeps_the_session_of_the_tab', async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target);
  await page.reload();
  await page.locator('#main').waitFor();
  await page.close();
});

test('memory_key_is_gone_after_reload', async () => {
  const { page } = await openPage(chromium.context, target.url);
  await page.goto(`${target.url}/ui/`);
  await page.getByLabel('Admin key', { exact: true }).fill(target.key);
  await page.getByRole('switch').check();
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('#main').waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.getItem('weir.key')), null);
  await page.reload();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  await page.close();
});

test('viewer_cannot_write', { skip: isReal && !process.env.WEIR_VIEWER_KEY }, async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, { url: target.url, key: target.viewerKey });
  await page.getByRole('button', { name: 'Signed in as viewer' }).waitFor();
  await page.keyboard.press('Control+k');
  const field = page.getByRole('combobox', { name: 'Search, jump or run a command' });
  await field.fill('New route');
  await page.waitForTimeout(400);
  assert.equal(await page.getByRole('option', { name: 'New route' }).count(), 0);
  await page.close();
});

test('lost_key_keeps_the_page', { skip: isReal }, async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/explain');
  await page.getByLabel('URL').fill('https://shop.example/half-typed');
  target.state.keys.admin = 'another';
  await page.locator('.nav-item', { hasText: 'Explain' }).waitFor();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByText('The instance no longer accepts the key.').waitFor();
  target.state.keys.admin = 'admin';
  await page.getByLabel('Admin key', { exact: true }).fill('admin');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign in' }).waitFor({ state: 'detached' });
  assert.equal(await page.getByLabel('URL').inputValue(), 'https://shop.example/half-typed');
  await page.close();
});

test('lost_connection_and_back', { skip: isReal }, async () => {
  const { page } = await openPage(chromium.context, target.url, { clock: false });
  await signIn(page, target);
  await settled(page);
  target.state.refuseConnections = true;
  await page.evaluate(() => window.dispatchEvent(new Event('focus')));
  await page.getByRole('button', { name: 'Live' }).click();
  await page.getByRole('button', { name: 'Paused' }).click();
  await page.getByText(/Not connected for \d+ s; data of/).waitFor({ timeout: 20_000 });
  await page.getByRole('button', { name: 'Try now' }).waitFor();
  target.state.refuseConnections = false;
  // The page tries by itself as well, which may take the button away at any moment.
  await page.getByRole('button', { name: 'Try now' }).evaluateAll((buttons) => buttons.forEach((button) => button.click()));
  await page.getByText(/Not connected for/).waitFor({ state: 'detached' });
  await page.close();
});
