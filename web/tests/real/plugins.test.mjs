/** The first half of the plugins of a real instance; one is tried and then added to a route. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { ORIGIN, SKIP, put, stored, walks } from './object-parts.mjs';
import { openPlugins } from './plugin-pages.mjs';

describe('plugins', { skip: SKIP }, () => {
  const shared = walks();
  before(async () => {
    await put(shared.target, 'upstreams/base', { type: 'roundrobin', nodes: { [ORIGIN]: 1 } });
    await put(shared.target, 'routes/tried', { uri: '/tried', upstream_id: 'base' });
  });

  it('page_and_form_of_first_plugins', () => openPlugins(shared, 0));

  it('add_plugin_and_try', async () => {
    const { page, done } = await shared.walk('/ui/plugins');
    await page.getByLabel('Filter plugins').fill('limit-req');
    await page.getByRole('link', { name: /limit-req/ }).click();
    await page.getByRole('tab', { name: 'Configure' }).click();
    await page.getByLabel('Object', { exact: true }).fill('tried');
    await page.getByRole('button', { name: 'Take it' }).click();
    const value = { rate: 5, burst: 1, key: 'remote_addr' };
    for (const [name, each] of Object.entries(value)) {
      const input = page.locator(`[id="configure/${name}"]`);
      if (await input.evaluate((element) => element.tagName) === 'SELECT') await input.selectOption({ label: String(each) });
      else await input.fill(String(each));
    }
    await page.getByRole('button', { name: 'Try' }).click();
    await page.getByText('takes the request').waitFor();
    await page.getByRole('status').getByText('limit-req', { exact: true }).first().waitFor();
    assert.equal((await stored(shared.target, 'routes/tried')).plugins, undefined);
    await page.getByRole('button', { name: 'Review and save' }).click();
    await page.getByRole('button', { name: /Save if still r/ }).click();
    await page.waitForURL(/\/ui\/routes\/tried/);
    assert.deepEqual((await stored(shared.target, 'routes/tried')).plugins['limit-req'], value);
    await done();
  });
});
