/** Changes of a real instance: a file applied, revisions compared, a roll back, a conflict, the list of faults. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { visit } from '../e2e/lib.mjs';
import { ORIGIN, SKIP, call, field, put, revision, saveAll, stored, walks } from './object-parts.mjs';

const FILE = 'routes:\n- id: filed\n  uri: /filed\n  upstream_id: base\n  labels:\n    from: file\n';

describe('changes', { skip: SKIP }, () => {
  const shared = walks();
  before(async () => {
    await put(shared.target, 'upstreams/base', { type: 'roundrobin', nodes: { [ORIGIN]: 1 } });
    await put(shared.target, 'routes/kept', { uri: '/kept', upstream_id: 'base' });
  });

  async function planOf(page, text) {
    await page.getByLabel('Text of the file').fill(text);
    await page.getByRole('button', { name: 'Show the plan' }).click();
    await page.getByRole('dialog').waitFor();
  }

  it('apply_file_and_roll_back', async () => {
    const { page, done } = await shared.walk('/ui/changes?apply=1');
    await page.getByLabel('Keep objects').check();
    await planOf(page, FILE.replace('/filed', 'relative'));
    await page.getByRole('dialog').getByText('routes[0].uri').or(page.getByRole('dialog').getByText('/uri')).first().waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await planOf(page, FILE);
    await page.getByRole('dialog').getByText('1 created').waitFor();
    await page.getByRole('button', { name: /Apply if still r/ }).click();
    await page.waitForURL(/changes\/\d+/);
    assert.equal((await stored(shared.target, 'routes/filed')).uri, '/filed');
    const made = await revision(shared.target);
    await page.getByText('routes/filed').first().waitFor();
    await visit(page, `/changes?compare=${made - 1}..${made}`);
    await page.getByRole('region', { name: 'Compare two revisions' }).getByText('1 created').waitFor();
    await visit(page, `/changes/${made}`);
    await page.getByRole('button', { name: /^Undo: back to r/ }).click();
    await page.getByRole('button', { name: /Roll back if still r/ }).click();
    await page.waitForURL(new RegExp(`changes/${made + 1}`));
    assert.equal(await stored(shared.target, 'routes/filed'), undefined);
    assert.equal((await stored(shared.target, 'routes/kept')).uri, '/kept');
    await done();
  });

  it('apply_conflict', async () => {
    const { page, done } = await shared.walk('/ui/changes?apply=1');
    await page.getByLabel('Keep objects').check();
    await planOf(page, FILE);
    await page.getByRole('button', { name: /Apply if still r/ }).waitFor();
    await put(shared.target, 'routes/between', { uri: '/between', upstream_id: 'base' });
    await page.getByRole('button', { name: /Apply if still r/ }).click();
    await page.getByText('was changed in the meantime. This is the new plan').waitFor();
    await page.getByText(/Previous plan at r/).waitFor();
    await page.getByRole('button', { name: /Apply if still r/ }).click();
    await page.waitForURL(/changes\/\d+/);
    assert.equal((await stored(shared.target, 'routes/filed')).uri, '/filed');
    assert.equal((await stored(shared.target, 'routes/between')).uri, '/between');
    await done();
  });

  it('file_without_others_lists_deletes', async () => {
    const { page, done } = await shared.walk('/ui/changes?apply=1');
    await planOf(page, `upstreams:\n- id: base\n  type: roundrobin\n  nodes:\n    "${ORIGIN}": 1\n${FILE}`);
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/deleted/).first().waitFor();
    await dialog.getByText('routes/kept').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    assert.equal((await stored(shared.target, 'routes/kept')).uri, '/kept');
    await done();
  });

  it('history_of_an_object_is_taken_up_again', async () => {
    await put(shared.target, 'routes/aged', { uri: '/old', upstream_id: 'base' });
    await put(shared.target, 'routes/aged', { uri: '/new', upstream_id: 'base', desc: 'newer' });
    const { page, done } = await shared.walk('/ui/routes/aged?tab=history');
    await page.getByRole('button', { name: 'See it as it was' }).nth(1).click();
    await page.getByRole('button', { name: /^Take r\d+ up again/ }).click();
    await page.getByRole('tabpanel').getByText('/old').first().waitFor();
    await saveAll(page);
    const { uri, desc } = await stored(shared.target, 'routes/aged');
    assert.deepEqual({ uri, desc }, { uri: '/old', desc: undefined });
    await done();
  });

  it('faults_are_listed_and_mended', async () => {
    await put(shared.target, 'upstreams/gone', { type: 'roundrobin', nodes: { [ORIGIN]: 1 } });
    await put(shared.target, 'routes/orphan', { uri: '/orphan', upstream_id: 'gone' });
    assert.equal((await call(shared.target, 'DELETE', 'upstreams/gone?force=true')).status, 200);
    const { page, done } = await shared.walk('/ui/faults');
    const row = page.getByRole('listitem').filter({ hasText: 'routes/orphan' });
    await row.getByText('/upstream_id').waitFor();
    await row.getByRole('link', { name: 'Open at the field' }).click();
    await page.locator('.w-reasons').first().waitFor();
    await field(page, '/upstream_id').fill('base');
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => document.querySelectorAll('.w-reasons').length === 0);
    await saveAll(page);
    await visit(page, '/faults');
    await page.getByText('Every object serves as written.').waitFor();
    await done();
  });
});
