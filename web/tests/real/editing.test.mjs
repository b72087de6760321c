/** Editing in a real instance: a fault at its field, a conflict, secrets that stay hidden, a long document. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { ORIGIN, SKIP, field, put, saveAll, stored, walks, writeSource } from './object-parts.mjs';

describe('editing', { skip: SKIP }, () => {
  const shared = walks();
  before(async () => {
    await put(shared.target, 'upstreams/base', { type: 'roundrobin', nodes: { [ORIGIN]: 1 } });
  });

  it('fault_is_at_its_field', async () => {
    await put(shared.target, 'routes/limited', { uri: '/limited', upstream_id: 'base', plugins: { 'limit-count': { count: 10, time_window: 60, key: 'remote_addr' } } });
    const { page, done } = await shared.walk('/ui/routes/limited');
    await page.locator('.w-plugin .w-fold-head').first().click();
    const count = field(page, '/plugins/limit-count/count');
    await count.fill('-5');
    await page.locator('.w-reasons').first().waitFor();
    await page.locator('.cm-lint-marker-error').first().waitFor();
    assert.equal(await count.getAttribute('aria-invalid'), 'true');
    await count.fill('20');
    await page.waitForFunction(() => document.querySelectorAll('.w-reasons').length === 0);
    await field(page, '/upstream_id').fill('nope');
    await page.keyboard.press('Escape');
    await page.locator('.w-reasons').getByText('does not exist').first().waitFor();
    await field(page, '/upstream_id').fill('base');
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => document.querySelectorAll('.w-reasons').length === 0);
    await saveAll(page);
    assert.equal((await stored(shared.target, 'routes/limited')).plugins['limit-count'].count, 20);
    await done();
  });

  it('conflict_keeps_both', async () => {
    await put(shared.target, 'routes/contended', { uri: '/first', upstream_id: 'base', desc: 'as it was' });
    const { page, done } = await shared.walk('/ui/routes/contended');
    await field(page, '/uri').fill('/mine');
    await page.locator('.w-chip', { hasText: 'priority' }).click();
    await field(page, '/priority').fill('3');
    await put(shared.target, 'routes/contended', { uri: '/theirs', upstream_id: 'base', desc: 'changed by ben' });
    await page.getByRole('button', { name: /Review and save/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: /Save as r/ }).click();
    await page.getByText('changed while it was being edited').waitFor();
    await page.getByLabel('"/mine"').check();
    await page.getByRole('button', { name: 'Merge and review' }).click();
    await page.getByRole('dialog').getByRole('button', { name: /Save as r/ }).click();
    await page.getByText(/Saved as r/).waitFor();
    const { uri, desc, priority } = await stored(shared.target, 'routes/contended');
    assert.deepEqual({ uri, desc, priority }, { uri: '/mine', desc: 'changed by ben', priority: 3 });
    await done();
  });

  it('secrets_stay_hidden', async () => {
    await put(shared.target, 'consumers/phone', { username: 'phone', plugins: { 'key-auth': { key: 'secret-of-phone-7f' } } });
    const { page, done } = await shared.walk('/ui/consumers/phone?tab=form');
    await page.locator('.w-plugin .w-fold-head').first().click();
    await page.getByText('•••• set').waitFor();
    await field(page, '/desc').fill('the phone');
    await saveAll(page);
    assert.equal((await stored(shared.target, 'consumers/phone')).plugins['key-auth'].key, 'secret-of-phone-7f');
    const kept = await page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, location.href, document.documentElement.outerHTML]));
    assert.ok(!kept.includes('secret-of-phone-7f'));
    await done();
  });

  it('save_keeps_the_digits_of_numbers', async () => {
    const text = '{"uri":"/digits","upstream_id":"base","vars":[["http_x","==",9007199254740993],["http_y","==",2.5]],"labels":{"n":"1"},'
      + '"plugins":{"proxy-rewrite":{"headers":{"set":{"X-Big":12345678901234567890,"X-Small":7}}}}}';
    await put(shared.target, 'routes/digits', text);
    const { page, done } = await shared.walk('/ui/routes/digits?tab=form');
    await page.locator('.cm-content').getByText('9007199254740993').waitFor();
    await page.locator('.w-chip', { hasText: 'desc' }).click();
    await field(page, '/desc').fill('with digits');
    await page.getByText('1 change, not saved').waitFor();
    await saveAll(page);
    const raw = await (await fetch(`${shared.target.url}/apisix/admin/routes/digits`, { headers: { 'X-API-KEY': shared.target.key } })).text();
    for (const digits of ['9007199254740993', '2.5', '12345678901234567890', '"X-Small":7', '"desc":"with digits"']) assert.ok(raw.includes(digits), `${digits}: ${raw}`);
    await done();
  });

  it('body_of_a_megabyte_is_edited', async () => {
    const { page, done } = await shared.walk('/ui/routes/new');
    await page.getByLabel('Id', { exact: true }).fill('large');
    const begun = Date.now();
    await writeSource(page, JSON.stringify({ uri: '/large', upstream_id: 'base', plugins: { mocking: { response_example: 'x'.repeat(1 << 20) } } }, null, 2));
    await page.getByText('Not created yet').waitFor();
    await page.locator('.w-plugin').first().waitFor();
    await field(page, '/uri').fill('/larger');
    assert.ok(Date.now() - begun < 8_000, `${Date.now() - begun} ms`);
    await saveAll(page);
    const value = await stored(shared.target, 'routes/large');
    assert.equal(value.uri, '/larger');
    assert.equal(value.plugins.mocking.response_example.length, 1 << 20);
    await done();
  });
});
