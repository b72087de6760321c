/** Objects in a real instance: credentials, certificates, copies, users of a deleted object, faults, conflicts, secrets. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { ORIGIN, SKIP, call, field, goInside, put, saveAll, stored, walks, writeSource } from './object-parts.mjs';

/** A fresh pair of a certificate and its key, for `names`. */
function pair(...names) {
  const folder = mkdtempSync(join(tmpdir(), 'weir-pair-'));
  try {
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '30', '-subj', `/CN=${names[0]}`, '-addext', `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}`, '-keyout', join(folder, 'key.pem'), '-out', join(folder, 'cert.pem')], { stdio: 'ignore' });
    return { cert: readFileSync(join(folder, 'cert.pem'), 'utf8'), key: readFileSync(join(folder, 'key.pem'), 'utf8') };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

describe('objects', { skip: SKIP }, () => {
  const shared = walks();
  before(async () => {
    await put(shared.target, 'upstreams/base', { type: 'roundrobin', nodes: { [ORIGIN]: 1 } });
  });

  it('credential_is_made_and_hidden', async () => {
    await put(shared.target, 'consumers/ana', { username: 'ana' });
    const { page, done } = await shared.walk('/ui/consumers/ana');
    await page.getByRole('link', { name: 'Credential' }).first().click();
    await page.waitForURL(/credentials\/new/);
    await page.getByLabel('Id', { exact: true }).fill('one');
    await writeSource(page, JSON.stringify({ plugins: { 'key-auth': { key: 'credential-key-of-ana' } } }));
    await saveAll(page);
    await page.waitForURL(/credentials\/one/);
    assert.equal((await stored(shared.target, 'consumers/ana/credentials/one')).plugins['key-auth'].key, 'credential-key-of-ana');
    await page.reload();
    await page.locator('.w-form').first().waitFor();
    assert.ok(!(await page.content()).includes('credential-key-of-ana'));
    const kept = await page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, location.href]));
    assert.ok(!kept.includes('credential-key-of-ana'));
    await goInside(page, '/consumers/ana?tab=credentials');
    await page.getByText('••••na').waitFor();
    await done();
  });

  it('certificate_is_made_and_replaced', async () => {
    const first = pair('one.example', '*.one.example');
    const { page, done } = await shared.walk('/ui/ssls/new');
    await page.getByLabel('Id', { exact: true }).fill('one');
    await writeSource(page, JSON.stringify({ snis: ['one.example'], cert: first.cert, key: first.key }));
    await saveAll(page);
    await page.waitForURL(/ssls\/one/);
    await goInside(page, '/ssls/one?tab=certificate');
    await page.getByRole('tabpanel').getByText('one.example').first().waitFor();
    await page.getByRole('tabpanel').getByText('ECDSA').first().waitFor();
    const line = first.key.split('\n')[1];
    assert.ok(!(await page.content()).includes(line));
    await page.getByRole('button', { name: 'Off', exact: true }).click();
    await page.getByText(/Disabled as r/).waitFor();
    await done();
  });

  it('duplicate_needs_a_new_id', async () => {
    await put(shared.target, 'routes/model', { uri: '/model', methods: ['GET'], upstream_id: 'base', labels: { team: 'a' } });
    const { page, done } = await shared.walk('/ui/routes/model');
    await page.getByRole('link', { name: 'Duplicate' }).click();
    await page.waitForURL(/from=model/);
    await page.getByLabel('Id', { exact: true }).fill('copy');
    await field(page, '/uri').fill('/copy');
    await saveAll(page);
    await page.waitForURL(/routes\/copy/);
    const { id: _id, ...value } = await stored(shared.target, 'routes/copy');
    assert.deepEqual({ ...value, status: undefined, priority: undefined }, { uri: '/copy', methods: ['GET'], upstream_id: 'base', labels: { team: 'a' }, status: undefined, priority: undefined });
    await done();
  });

  it('delete_lists_users', async () => {
    await put(shared.target, 'upstreams/used', { type: 'roundrobin', nodes: { [ORIGIN]: 1 } });
    await put(shared.target, 'routes/user', { uri: '/user', upstream_id: 'used' });
    const { page, done } = await shared.walk('/ui/upstreams/used?tab=form');
    await page.getByRole('button', { name: 'More', exact: true }).last().click();
    await page.getByRole('menuitem', { name: 'Delete…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('link', { name: 'routes/user' }).waitFor();
    await dialog.getByRole('button', { name: 'Delete anyway…' }).click();
    await dialog.getByText('will be faulty').waitFor();
    await dialog.getByRole('button', { name: 'Delete it although it is in use' }).click();
    await page.waitForURL(/\/ui\/upstreams$/);
    assert.equal(await stored(shared.target, 'upstreams/used'), undefined);
    await goInside(page, '/faults');
    await page.getByRole('listitem').filter({ hasText: 'routes/user' }).getByRole('link', { name: 'Open at the field' }).click();
    await page.waitForURL(/routes\/user\?.*at=/);
    await field(page, '/upstream_id').waitFor();
    await page.locator('.w-reasons').first().waitFor();
    assert.equal((await call(shared.target, 'DELETE', 'routes/user')).status, 200);
    await done();
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
