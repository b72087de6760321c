/** Every kind of object in a real instance: made by its source, edited by its form, disabled, deleted. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { visit } from '../e2e/lib.mjs';
import { ORIGIN, SKIP, field, put, saveAll, stored, walks, writeSource } from './object-parts.mjs';

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
  // One page for all kinds, as a user has it.
  let page;
  let done;
  before(async () => {
    await put(shared.target, 'upstreams/base', { type: 'roundrobin', nodes: { [ORIGIN]: 1 } });
    ({ page, done } = await shared.walk('/ui/upstreams', { keep: true }));
  });
  after(() => done());

  async function make( { kind, id, document }) {
    await visit(page, `/${kind}/new`);
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
      await make(each);
      const { id: _id, ...made } = await stored(shared.target, `${kind}/${id}`);
      for (const [name, value] of Object.entries(document)) if (name !== 'plugins' && name !== 'token') assert.deepEqual(made[name], value, `${kind}: ${name}`);
      await visit(page, `/${kind}/${id}?tab=form`);
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
      await visit(page, `/${kind}`);
      await page.locator('.cell-open').first().waitFor();
      await visit(page, `/${kind}/${id}?tab=form`);
      await page.getByRole('button', { name: 'More', exact: true }).last().click();
      await page.getByRole('menuitem', { name: 'Delete…' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
      await page.waitForURL(new RegExp(`/ui/${kind}$`));
      assert.equal(await stored(shared.target, `${kind}/${id}`), undefined);
    });
  }
});
