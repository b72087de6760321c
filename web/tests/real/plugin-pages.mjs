/** The pages of all plugins: documentation, fields, and the form with each of its parts opened. */
import assert from 'node:assert/strict';
import { visit } from '../e2e/lib.mjs';
import { ORIGIN, call, put, revision } from './object-parts.mjs';

/** Words of a form library that cannot show a schema. */
const NOT_SHOWN = /unsupported field|unknown field type|option 1|\[object/i;

/** Opens the pages of one half of the plugins, 0 or 1, so that a file of walks stays short. */
export async function openPlugins(shared, part) {
  await put(shared.target, 'upstreams/base', { type: 'roundrobin', nodes: { [ORIGIN]: 1 } });
  await put(shared.target, 'routes/tried', { uri: '/tried', upstream_id: 'base' });
  const { list } = (await call(shared.target, 'GET', 'weir/plugins')).data;
  assert.ok(list.length > 50);
  const half = Math.ceil(list.length / 2);
  const at = await revision(shared.target);
  const { page, faults, done } = await shared.walk('/ui/plugins');
  await page.getByRole('link', { name: /key-auth/ }).first().waitFor();
  const found = [];
  for (const { name, scopes } of list.slice(part * half, (part + 1) * half)) {
    const before = faults.length;
    await visit(page, `/plugins/${name}?tab=schema`);
    await page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
    await page.locator('section[aria-label="Configuration"]').waitFor();
    const isEmpty = await page.locator('section[aria-label="Configuration"]').getByText('It takes no fields.').count() > 0;
    await visit(page, `/plugins/${name}`);
    await page.locator('.md, .markdown, #plugin-panel section').first().waitFor();
    if ((await page.locator('#plugin-panel').innerText()).trim().length < 20) found.push(`${name}: no documentation`);
    // Those of layer 4 alone cannot be configured on a route.
    if (!scopes.includes('route')) continue;
    await visit(page, `/plugins/${name}?tab=configure`);
    await page.getByLabel('Object', { exact: true }).fill('tried');
    await page.getByRole('button', { name: 'Take it' }).click();
    await page.locator('.w-form').waitFor();
    const text = await page.locator('.w-form').innerText();
    if (NOT_SHOWN.test(text)) found.push(`${name}: ${NOT_SHOWN.exec(text)[0]}`);
    if (!isEmpty && text.trim() === '') found.push(`${name}: an empty form`);
    // Every part of the form is built once.
    for (let round = 0; round < 2; round += 1) {
      await page.locator('.w-form').evaluate((form) => form.querySelectorAll('.w-fold-head[aria-expanded=false]').forEach((one) => one.click()));
      await page.evaluate(() => new Promise(requestAnimationFrame));
    }
    await page.locator('.w-form').evaluate((form) => form.querySelectorAll('.w-chip-more').forEach((one) => one.click()));
    await page.locator('.w-form').evaluate((form) => form.querySelectorAll('.w-chip:not(.w-chip-more)').forEach((one) => one.click()));
    await page.evaluate(() => new Promise(requestAnimationFrame));
    const all = await page.locator('.w-form').innerText();
    if (NOT_SHOWN.test(all)) found.push(`${name}: ${NOT_SHOWN.exec(all)[0]}`);
    if (faults.length > before) found.push(`${name}: ${faults.slice(before).join(' ').slice(0, 300)}`);
  }
  assert.deepEqual(found, []);
  assert.equal(await revision(shared.target), at);
  await done();
}
