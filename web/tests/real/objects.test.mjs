/** Objects in a real instance: credentials, certificates, copies, users of a deleted object. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { visit } from '../e2e/lib.mjs';
import { ORIGIN, SKIP, call, field, put, saveAll, stored, walks, writeSource } from './object-parts.mjs';

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
    await visit(page, '/consumers/ana?tab=credentials');
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
    await visit(page, '/ssls/one?tab=certificate');
    await page.getByRole('tabpanel').getByText('one.example').first().waitFor();
    await page.getByRole('tabpanel').getByText('ECDSA').first().waitFor();
    const line = first.key.split('\n')[1];
    assert.ok(!(await page.content()).includes(line));
    // A key of another certificate is refused before anything is written.
    const second = pair('one.example');
    await page.getByRole('tabpanel').getByRole('textbox').fill(second.cert + first.key);
    await page.getByRole('tabpanel').getByText(/match|belong/).first().waitFor();
    assert.ok(await page.getByRole('tabpanel').getByRole('button', { name: 'Review and save…' }).isDisabled());
    await page.getByRole('tabpanel').getByRole('textbox').fill(second.cert + second.key);
    await page.getByRole('tabpanel').getByRole('button', { name: 'Review and save…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: /^Save as r/ }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.equal((await stored(shared.target, 'ssls/one')).cert.trim(), second.cert.trim());
    assert.ok(!(await page.content()).includes(second.key.split('\n')[1]));
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
    await visit(page, '/faults');
    await page.getByRole('listitem').filter({ hasText: 'routes/user' }).getByRole('link', { name: 'Open at the field' }).click();
    await page.waitForURL(/routes\/user\?.*at=/);
    await field(page, '/upstream_id').waitFor();
    await page.locator('.w-reasons').first().waitFor();
    assert.equal((await call(shared.target, 'DELETE', 'routes/user')).status, 200);
    await done();
  });
});
