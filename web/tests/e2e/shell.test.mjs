/** The frame: policy, palette, keys, addresses, landmarks. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, instance, isReal, openPage, settled, signIn, visitPage } from './lib.mjs';

const PATHS = [
  '/overview', '/traffic', '/explain', '/routes', '/services', '/upstreams', '/stream_routes', '/ssls', '/consumers', '/consumer_groups', '/secrets',
  '/plugins', '/plugin_configs', '/global_rules', '/plugin_metadata', '/protos', '/changes', '/faults', '/laboratory', '/routes/new', '/no-such-page',
];
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

test('csp_has_no_violation', async () => {
  const { page, faults } = await openPage(chromium.context, target.url);
  await signIn(page, target);
  for (const path of PATHS) {
    await page.goto(`${target.url}/ui${path}`);
    await page.locator('main').first().waitFor();
    await page.waitForTimeout(400);
  }
  await page.goto(`${target.url}/ui/overview`);
  await settled(page);
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Theme' }).click();
  await page.getByRole('menuitem', { name: 'Dark' }).click();
  await page.getByRole('button', { name: /^Revision/ }).click();
  await page.waitForTimeout(300);
  assert.deepEqual(faults, []);
  await page.close();
});

test('palette_opens_pages_and_pasted_things', async () => {
  const { page, faults } = await openPage(chromium.context, target.url);
  await signIn(page, target);
  const field = page.getByRole('combobox', { name: 'Search, jump or run a command' });
  await page.keyboard.press('Control+k');
  await field.fill('laborat');
  await page.getByRole('option', { name: 'Laboratory' }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL('**/ui/laboratory');
  await page.keyboard.press('Control+k');
  await field.fill('r4126');
  await page.getByRole('option', { name: 'Open revision 4126' }).waitFor();
  await page.keyboard.press('Escape');
  await field.waitFor({ state: 'detached' });
  await page.keyboard.press('Control+k');
  await field.fill("curl -X POST 'https://shop.example/checkout/1/pay' -H 'authorization: secret-in-header'");
  await page.keyboard.press('Enter');
  await page.waitForURL('**/ui/explain?**');
  assert.ok(!page.url().includes('secret-in-header'), 'headers stay out of the address');
  assert.match(page.url(), /method=POST/);
  await page.getByLabel('Value of header authorization').waitFor();
  assert.equal(await page.getByLabel('Value of header authorization').getAttribute('type'), 'password');
  assert.deepEqual(faults, []);
  await page.close();
});

test('palette_finds_all_kinds', { skip: isReal }, async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target);
  await page.keyboard.press('Control+k');
  const field = page.getByRole('combobox', { name: 'Search, jump or run a command' });
  await field.fill('orders');
  await page.locator('.palette-group', { hasText: 'Upstreams' }).waitFor();
  await page.close();
});

test('letters_go_to_pages', async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target);
  await settled(page);
  for (const [letter, path] of [['t', 'traffic'], ['e', 'explain'], ['f', 'faults'], ['o', 'overview']]) {
    await page.keyboard.press('g');
    await page.keyboard.press(letter);
    await page.waitForURL(`**/ui/${path}`);
    await page.evaluate(() => document.activeElement?.blur());
  }
  await page.getByRole('button', { name: /Signed in as/ }).click();
  await page.getByRole('menuitem', { name: 'Single-letter keys' }).click();
  await page.keyboard.press('Escape');
  await page.keyboard.press('g');
  await page.keyboard.press('t');
  await page.waitForTimeout(200);
  assert.match(page.url(), /overview/, 'single letters can be switched off');
  await page.close();
});

test('url_restores_view', async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/overview?range=15m&top=consumers');
  await settled(page);
  assert.equal(await page.getByRole('button', { name: '15 min' }).getAttribute('aria-pressed'), 'true');
  assert.equal(await page.getByRole('tab', { name: 'Consumers' }).getAttribute('aria-selected'), 'true');
  await page.getByRole('button', { name: '1 hour' }).click();
  assert.ok(!page.url().includes('range='), 'a default is not written into the address');
  await page.goto(`${target.url}/ui/overview?range=nonsense`);
  await settled(page);
  assert.equal(await page.getByRole('button', { name: '1 hour' }).getAttribute('aria-pressed'), 'true');
  await page.close();
});

test('keyboard_reaches_content_and_returns', async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target);
  await settled(page);
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'Skip to the content');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'main');
  await page.locator('.top-search').focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.waitForFunction(() => document.activeElement?.className === 'top-search');
  await page.close();
});

test('phone_has_no_sideways_scroll', async () => {
  const { page } = await openPage(chromium.context, target.url, { width: 320, height: 640 });
  await signIn(page, target);
  for (const path of ['/overview', '/traffic', '/explain', '/laboratory', '/changes', '/faults']) {
    await visitPage(page, path);
    await settled(page);
    const over = await page.evaluate(() => {
      const main = document.querySelector('#main');
      return Math.max(main.scrollWidth - main.clientWidth, document.documentElement.scrollWidth - window.innerWidth);
    });
    assert.ok(over <= 0, `${path} is ${over} px too wide`);
  }
  await page.close();
});
