/** Every kind of object in a real instance: made, edited by form and source, disabled, duplicated, deleted. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { ORIGIN, SKIP, call, field, goInside, put, saveAll, stored, walks, writeSource } from './parts.mjs';

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

const PROTO = 'syntax = "proto3";\npackage shop;\nservice Orders { rpc Find (Question) returns (Answer); }\nmessage Question { string id = 1; }\nmessage Answer { string name = 1; }\n';
/** A document of each kind, the field that the walk edits in the form, and what the kind offers. */
const KINDS = [
  { kind: 'upstreams', id: 'made', document: { type: 'roundrobin', nodes: { [ORIGIN]: 1 } }, edit: '/desc' },
  { kind: 'services', id: 'made', document: { upstream_id: 'base', plugins: {} }, edit: '/desc' },
  { kind: 'routes', id: 'made', document: { uri: '/made/*', upstream_id: 'base' }, edit: '/desc', disable: true },
  { kind: 'plugin_configs', id: 'made', document: { plugins: { 'request-id': {} } }, edit: '/desc' },
  { kind: 'consumer_groups', id: 'made', document: { plugins: { 'limit-count': { count: 100, time_window: 60, rejected_code: 429, key: 'remote_addr' } } }, edit: '/desc' },
  { kind: 'global_rules', id: 'made', document: { plugins: { 'request-id': { header_name: 'X-Made' } } } },
  { kind: 'protos', id: 'made', document: { content: PROTO }, edit: '/desc' },
  { kind: 'secrets', id: 'vault/made', document: { uri: 'http://127.0.0.1:8200', prefix: 'kv/weir', token: 'root-token-7f' }, edit: '/prefix' },
  { kind: 'plugin_metadata', id: 'http-logger', document: { log_format: { host: '$host' } } },
  { kind: 'consumers', id: 'made', document: { username: 'made', plugins: { 'key-auth': { key: 'consumer-key-of-made' } } }, edit: '/desc' },
];

describe('kinds', { skip: SKIP }, () => {
  const shared = walks();
  before(async () => {
    await put(shared.target, 'upstreams/base', { type: 'roundrobin', nodes: { [ORIGIN]: 1 } });
  });

  async function make(page, { kind, id, document }) {
    await goInside(page, `/${kind}/new`);
    if (kind === 'secrets') await page.getByLabel('Id', { exact: true }).fill(id.split('/')[1]);
    else if (kind === 'plugin_metadata') await page.getByLabel('Plugin', { exact: true }).selectOption(id);
    else if (kind !== 'consumers') await page.getByLabel('Id', { exact: true }).fill(id);
    await writeSource(page, JSON.stringify(document, null, 2));
    await saveAll(page);
    await page.waitForURL(new RegExp(`/ui/${kind}/${id}`));
  }

  for (const each of KINDS) {
    const { kind, id, document, edit, disable } = each;
    it(`make_edit_and_delete_${kind}`, async () => {
      const { page, done } = await shared.walk(`/ui/${kind}`);
      await make(page, each);
      const { id: _id, ...made } = await stored(shared.target, `${kind}/${id}`);
      for (const [name, value] of Object.entries(document)) if (name !== 'plugins' && name !== 'token') assert.deepEqual(made[name], value, `${kind}: ${name}`);
      await goInside(page, `/${kind}/${id}?tab=form`);
      await page.locator('.w-form').first().waitFor();
      if (edit) {
        const input = field(page, edit);
        if (await input.count() === 0) await page.locator('.w-chip', { hasText: edit.slice(1) }).first().click();
        await input.fill('changed by a walk');
        await page.getByText('1 change, not saved').waitFor();
        await saveAll(page);
        assert.equal((await stored(shared.target, `${kind}/${id}`))[edit.slice(1)], 'changed by a walk');
      }
      if (disable) {
        await page.getByRole('button', { name: 'Off', exact: true }).click();
        await page.getByText(/Disabled as r/).waitFor();
        assert.equal((await stored(shared.target, `${kind}/${id}`)).status, 0);
        await page.getByRole('button', { name: 'On', exact: true }).click();
        await page.getByText(/Enabled as r/).waitFor();
      }
      await goInside(page, `/${kind}`);
      await page.locator('.cell-open').first().waitFor();
      await goInside(page, `/${kind}/${id}?tab=form`);
      await page.getByRole('button', { name: 'More', exact: true }).last().click();
      await page.getByRole('menuitem', { name: 'Delete…' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
      await page.waitForURL(new RegExp(`/ui/${kind}$`));
      assert.equal(await stored(shared.target, `${kind}/${id}`), undefined);
      await done();
    });
  }

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
    await page.getByRole('tabpanel').getByText('*.one.example').first().waitFor();
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
});
