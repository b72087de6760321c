/** A newcomer's walk: sign in, make a route, send a request, see it pass, see its timeline, explain it, open its route. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, openPage } from '../e2e/lib.mjs';
import { admin, proxied, skip, target, until } from './parts.mjs';

/** The whole walk, on a machine that also runs the gateway and the browser. */
const WALK_MS = 30_000;
/** From the answer of a request to its line on the page. */
const SEEN_MS = 5_000;

let chromium;
before(async () => {
  if (!skip) chromium = await browser();
});
after(() => chromium?.close());

test('newcomer_three_minutes', { skip }, async () => {
  const begin = performance.now();
  const { page, faults } = await openPage(chromium.context, target.url);
  await page.goto(`${target.url}/ui/`);
  await page.getByLabel('Admin key', { exact: true }).fill(target.key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
  await page.getByText('No request yet.', { exact: false }).waitFor();
  await page.getByRole('button', { name: 'New route' }).click();
  await page.waitForURL('**/ui/routes/new');

  await page.getByLabel('Id', { exact: true }).fill('newcomer');
  await page.locator('[id="field/uri"]').fill('/newcomer/*');
  await page.getByRole('radio', { name: 'nodes here' }).click();
  await page.getByRole('button', { name: 'Add a node' }).click();
  await page.getByLabel(/address 1$/).fill(target.origin);
  await page.locator('[id="field/name"]').fill('first-steps');
  await page.getByRole('button', { name: /Review and save/ }).click();
  const dialog = page.getByRole('dialog', { name: 'Create route newcomer' });
  await dialog.getByText('/newcomer/*').first().waitFor();
  await dialog.getByText(target.origin).first().waitFor();
  await dialog.getByRole('button', { name: /^Save/ }).click();
  await page.waitForURL(/\/ui\/routes\/newcomer/);
  await page.getByRole('heading', { name: 'newcomer', level: 1 }).waitFor();
  await page.getByText('in force', { exact: true }).first().waitFor();
  const stored = await admin('GET', 'routes/newcomer');
  assert.deepEqual(stored.value.upstream.nodes, { [target.origin]: 1 });
  assert.equal(stored.value.name, 'first-steps');

  await page.getByRole('link', { name: 'Traffic', exact: true }).first().click();
  await page.getByText('No request passes now.').waitFor();
  assert.equal(await proxied('/newcomer/hello?page=1'), 200);
  const row = page.getByRole('row', { name: /\/newcomer\/hello\?page=1/ });
  const seen = await until(() => row.isVisible(), SEEN_MS, 'the request is on the page');
  await row.click();
  const drawer = page.getByRole('complementary', { name: /Request GET \/newcomer\/hello/ });
  await drawer.getByText(`The endpoint ${target.origin} answered 200`).waitFor();
  await drawer.getByText(`Attempt 1 · ${target.origin}`).waitFor();
  for (const span of ['read head', 'wait', 'send response']) await drawer.getByText(span, { exact: true }).first().waitFor();
  await drawer.getByRole('button', { name: 'Explain' }).click();
  await page.waitForURL('**/ui/explain?**');
  const step = page.getByRole('region', { name: 'Route' });
  await step.getByRole('link', { name: 'first-steps' }).waitFor();
  await page.getByRole('region', { name: 'Endpoint' }).getByText(target.origin).waitFor();
  await step.getByRole('link', { name: 'first-steps' }).click();
  await page.waitForURL(/\/ui\/routes\/newcomer/);
  const took = performance.now() - begin;
  console.log(`newcomer: ${Math.round(took)} ms in all, seen in Traffic after ${seen} ms`);
  assert.ok(took < WALK_MS, `${took} ms`);
  assert.deepEqual(faults, []);
  await page.close();
});
