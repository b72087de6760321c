/** Walks through lists, the page of an object, changes, faults and plugins. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { browser, instance, isReal, openPage, settled, signIn, visitPage } from './lib.mjs';

let target;
let opened;
before(async () => {
  opened = await browser();
});
after(async () => {
  await opened?.close();
  await target?.close();
});

/** Each walk has a fresh stand-in, because walks write. */
beforeEach(async () => {
  await target?.close();
  target = await instance();
});

async function walk(path, options = {}) {
  const { page, faults } = await openPage(opened.context, target.url, options);
  page.setDefaultTimeout(60_000);
  await page.addInitScript(() => {
    // Once in a tab: a walk that loads its page again keeps what it has.
    if (!window.sessionStorage.getItem('walk')) window.sessionStorage.clear();
    window.sessionStorage.setItem('walk', '1');
  });
  await signIn(page, { url: target.url, key: options.key ?? target.key }, path);
  return { page, done: async () => {
    await page.close();
    assert.deepEqual(faults, []);
  } };
}

const field = (page, pointer) => page.locator(`[id="field${pointer}"]`);
const stored = (key) => target.state.shelf.get(key)?.value;

describe('objects', { skip: isReal ? 'needs the data of the stand-in' : false }, () => {
  it('list_10000_routes', async () => {
    const { page, done } = await walk('/ui/routes');
    const grid = page.getByRole('grid');
    await grid.locator('.cell-open').first().waitFor();
    assert.ok(Number(await grid.getAttribute('aria-rowcount')) > 10_000);
    assert.ok(await grid.getByRole('row').count() < 60);
    await grid.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await page.waitForFunction(() => document.querySelector('.list-foot')?.textContent?.includes('to 10,433 of'));
    await grid.locator('.cell-open').first().waitFor();
    assert.ok(await grid.getByRole('row').count() < 60);
    await done();
  });

  it('query_error_has_caret', async () => {
    const { page, done } = await walk('/ui/routes');
    await page.getByLabel('Filter routes').fill('shop nonsense:x');
    const caret = page.locator('.query-error pre');
    await caret.waitFor();
    assert.equal((await caret.textContent()).split('\n')[1].length, 6);
    await done();
  });

  it('url_restores_view', async () => {
    const { page, done } = await walk('/ui/routes?q=plugin:limit-count&sort=-rps&cols=state,name,labels,rps');
    await page.locator('.cell-open').first().waitFor();
    assert.equal(await page.locator('.cell-open').first().textContent(), 'shop-read');
    assert.deepEqual(await page.getByRole('columnheader').allTextContents(), ['', 'State', 'Name', 'Labels', 'Req/s']);
    await page.getByRole('columnheader', { name: 'Req/s' }).getByRole('button').click();
    await page.waitForURL(/sort=rps/);
    await page.goBack();
    await page.waitForURL(/sort=-rps/);
    await done();
  });

  it('keyboard_moves_selects_and_opens', async () => {
    const { page, done } = await walk('/ui/routes');
    await page.locator('.cell-open').first().waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('x');
    await page.getByRole('toolbar', { name: 'Selected objects' }).waitFor();
    await page.waitForURL(/sel=shop-read/);
    await page.keyboard.press('e');
    await page.waitForURL(/routes\/shop-read\?tab=form/);
    await done();
  });

  it('bulk_disable', async () => {
    const { page, done } = await walk('/ui/routes?sel=checkout,search');
    await page.getByRole('button', { name: 'Disable' }).click();
    await page.getByRole('dialog').getByText('2 changed').waitFor();
    await page.getByRole('button', { name: 'Apply if still r4127' }).click();
    await page.getByText('Saved as r4128.').waitFor();
    assert.equal(stored('routes/checkout').status, 0);
    assert.equal(stored('routes/search').status, 0);
    assert.deepEqual(stored('routes/checkout').vars, [['http_x_channel', '==', 'web']]);
    await done();
  });

  it('save_without_edit_changes_nothing', async () => {
    const { page, done } = await walk('/ui/routes/checkout');
    for (const path of ['routes/checkout', 'routes/shop-read', 'upstreams/orders?tab=form', 'consumers/mobile-app?tab=form', 'ssls/shop?tab=form', 'global_rules/1', 'plugin_configs/standard', 'plugin_metadata/http-logger', 'secrets/vault/main', 'protos/orders', 'consumers/partner-sync/credentials/one']) {
      await visitPage(page, `/${path}`);
      await page.locator('.w-form').first().waitFor();
      await settled(page);
      assert.equal(await page.getByRole('region', { name: 'Unsaved changes' }).count(), 0, path);
      await page.keyboard.press('Control+s');
      assert.equal(await page.getByRole('dialog').count(), 0, path);
    }
    assert.ok(!target.state.calls.some((call) => /^(PUT|PATCH|POST (?!weir))/.test(call)));
    await done();
  });

  it('edit_in_form_and_source', async () => {
    const { page, done } = await walk('/ui/routes/checkout');
    await field(page, '/uri').fill('/pay/*');
    await page.locator('.cm-content').getByText('"/pay/*"').waitFor();
    await page.locator('.cm-content').getByText('"/pay/*"').dblclick();
    await page.keyboard.press('End');
    await page.keyboard.type('\n"priority": 7,');
    await field(page, '/priority').waitFor();
    assert.equal(await field(page, '/priority').inputValue(), '7');
    await page.getByText('2 changes, not saved').waitFor();
    await page.keyboard.press('Control+s');
    await page.getByRole('dialog').getByText('/priority').waitFor();
    // The focus moves into the dialog after it is drawn; before that, keys go to the editor behind it.
    await page.waitForFunction(() => document.activeElement?.closest('[role="dialog"]'));
    await page.keyboard.press('Control+Enter');
    await page.getByText('Saved as r4128.').waitFor();
    assert.equal(stored('routes/checkout').priority, 7);
    assert.equal(stored('routes/checkout').uri, '/pay/*');
    assert.deepEqual(stored('routes/checkout').vars, [['http_x_channel', '==', 'web']]);
    await done();
  });

  it('typed_source_is_never_lost', async () => {
    for (const width of [1440, 1000]) {
      const { page, done } = await walk('/ui/routes/checkout?tab=source', { width });
      await page.locator('.cm-content').getByText('"/checkout/*"').dblclick();
      await page.keyboard.press('End');
      await page.keyboard.type('\n"desc": "typed" "priority": 7,');
      await page.getByText('the source does not parse').waitFor();
      assert.ok(await page.getByRole('button', { name: /Review and save/ }).isDisabled());
      // Another tab of the page, another page, and back: the text is there, and no field can overrule it.
      await page.getByRole('tab', { name: 'Form' }).click();
      await page.getByText('The source does not parse yet').waitFor();
      assert.equal(await page.locator('input[id="field/uri"]').count(), 0, String(width));
      await page.keyboard.press('g');
      await page.keyboard.press('u');
      await page.waitForURL(/\/ui\/upstreams/);
      await page.goBack();
      await page.getByRole('tab', { name: 'Source' }).click();
      await page.locator('.cm-content').getByText('"desc": "typed" "priority": 7,').waitFor();
      // Mended, it is the document; dropped, the document is the text.
      await page.locator('.cm-content').getByText('"desc": "typed" "priority": 7,').click();
      await page.keyboard.press('Home');
      for (let at = 0; at < '"desc": "typed"'.length; at += 1) await page.keyboard.press('ArrowRight');
      await page.keyboard.type(',');
      await page.getByText('2 changes, not saved').waitFor();
      await page.keyboard.type('{');
      await page.getByRole('button', { name: 'Drop the typed text' }).click();
      await page.getByText('the source does not parse').waitFor({ state: 'detached' });
      await page.getByText('2 changes, not saved').waitFor();
      await page.getByRole('button', { name: 'Discard' }).click();
      await page.getByRole('region', { name: 'Unsaved changes' }).waitFor({ state: 'detached' });
      await done();
    }
  });

  it('create_route', async () => {
    const { page, done } = await walk('/ui/routes/new');
    await page.getByLabel('Id', { exact: true }).fill('fresh');
    await field(page, '/uri').fill('/fresh');
    await field(page, '/upstream_id').fill('orders');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: /Review and save/ }).click();
    await page.getByRole('button', { name: 'Save as r4128' }).click();
    await page.waitForURL(/\/ui\/routes\/fresh/);
    assert.equal(stored('routes/fresh').uri, '/fresh');
    await done();
  });

  it('fault_is_at_its_field', async () => {
    const { page, done } = await walk('/ui/faults');
    await page.getByRole('listitem').filter({ hasText: 'legacy-soap' }).getByRole('link', { name: 'Open at the field' }).click();
    await page.waitForURL(/at=\/plugins\/limit-count\/count/);
    await page.waitForFunction(() => document.activeElement?.id === 'field/plugins/limit-count/count');
    await page.locator('.w-reasons').getByText('expected a whole number').waitFor();
    const count = page.locator('[id="field/plugins/limit-count/count"]');
    assert.equal(await count.getAttribute('aria-invalid'), 'true');
    await count.fill('100');
    await page.waitForFunction(() => document.querySelectorAll('.w-reasons').length === 0);
    await count.fill('many');
    await page.locator('.w-reasons').first().waitFor();
    await page.locator('.cm-lint-marker-error').first().waitFor();
    await done();
  });

  it('conflict_keeps_both', async () => {
    const { page, done } = await walk('/ui/routes/search');
    await field(page, '/uri').fill('/mine');
    await page.locator('.w-chip', { hasText: 'priority' }).click();
    await field(page, '/priority').fill('3');
    const item = target.state.shelf.get('routes/search');
    item.value = { ...item.value, uri: '/theirs', desc: 'changed by ben' };
    item.index += 1000;
    item.by = 'ben';
    await page.keyboard.press('Control+s');
    await page.getByRole('button', { name: 'Save as r4128' }).click();
    await page.getByText('changed while it was being edited').waitFor();
    await page.getByLabel('"/mine"').check();
    await page.getByRole('button', { name: 'Merge and review' }).click();
    await page.getByRole('button', { name: 'Save as r4128' }).click();
    await page.getByText('Saved as r4128.').waitFor();
    assert.equal(stored('routes/search').uri, '/mine');
    assert.equal(stored('routes/search').desc, 'changed by ben');
    assert.equal(stored('routes/search').priority, 3);
    await done();
  });

  it('delete_lists_users', async () => {
    const { page, done } = await walk('/ui/upstreams/orders?tab=form');
    await page.getByRole('button', { name: 'More', exact: true }).last().click();
    await page.getByRole('menuitem', { name: 'Delete…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('link', { name: 'routes/checkout' }).waitFor();
    assert.equal(await dialog.getByRole('button', { name: 'Delete', exact: true }).count(), 0);
    await dialog.getByRole('button', { name: 'Delete anyway…' }).click();
    await dialog.getByText('will be faulty').waitFor();
    await dialog.getByRole('button', { name: 'Delete it although it is in use' }).click();
    await page.waitForURL(/\/ui\/upstreams$/);
    assert.equal(stored('upstreams/orders'), undefined);
    await done();
  });

  it('viewer_cannot_write', async () => {
    const { page, done } = await walk('/ui/routes/checkout', { key: target.viewerKey });
    await page.getByText('This key may only read.').waitFor();
    await page.locator('.w-form').waitFor();
    assert.equal(await page.locator('.w-form input').count(), 0);
    for (const name of ['Off', 'Duplicate', /Review and save/]) assert.equal(await page.getByRole('button', { name }).count(), 0);
    await page.goto(`${target.url}/ui/routes`);
    await page.locator('.cell-open').first().waitFor();
    assert.equal(await page.getByRole('checkbox').count(), 0);
    await done();
  });

  it('draft_survives_a_reload', async () => {
    const { page, faults } = await openPage(opened.context, target.url);
    await signIn(page, target, '/ui/routes/search');
    await field(page, '/uri').fill('/kept');
    await page.waitForTimeout(700);
    await page.reload();
    await page.getByText('Unsaved changes of this tab are back.').waitFor();
    assert.equal(await field(page, '/uri').inputValue(), '/kept');
    await page.evaluate(() => window.sessionStorage.clear());
    await page.close();
    assert.deepEqual(faults, []);
  });

  it('secrets_stay_hidden', async () => {
    const { page, done } = await walk('/ui/consumers/mobile-app?tab=form');
    await page.locator('.w-plugin').first().waitFor();
    await page.locator('.w-plugin .w-fold-head').first().click();
    await page.getByText('•••• set').waitFor();
    assert.ok(!(await page.content()).includes('k-mobile-7f'));
    await page.locator('.w-chip', { hasText: 'limits' }).waitFor();
    await field(page, '/desc').fill('the phone');
    await page.keyboard.press('Control+s');
    await page.getByRole('button', { name: 'Save as r4128' }).click();
    await page.getByText('Saved as r4128.').waitFor();
    assert.equal(stored('consumers/mobile-app').plugins['key-auth'].key, 'k-mobile-7f');
    const kept = await page.evaluate(() => JSON.stringify([{ ...window.sessionStorage }, { ...window.localStorage }]));
    assert.ok(!kept.includes('k-mobile-7f'));
    await done();
  });

  it('script_tags_stay_text', async () => {
    const { page, done } = await walk('/ui/routes');
    await page.getByText('<script>alert(1)</script>').waitFor();
    await page.goto(`${target.url}/ui/routes/odd%3Cscript%3E`);
    await page.locator('.w-form').waitFor();
    await page.getByRole('heading', { name: 'odd<script>' }).waitFor();
    assert.equal(await page.locator('main script, main img').count(), 0);
    await page.goto(`${target.url}/ui/plugins/limit-count`);
    await page.getByText('<script>alert(1)</script>').waitFor();
    assert.equal(await page.locator('main a[href^="javascript"]').count(), 0);
    await done();
  });
});

describe('changes and plugins', { skip: isReal ? 'needs the data of the stand-in' : false }, () => {
  it('apply_file_and_roll_back', async () => {
    const { page, done } = await walk('/ui/changes?apply=1');
    await page.getByLabel('Text of the file').fill('routes:\n- id: search\n  uri: "relative"\n  upstream_id: search\n');
    await page.getByLabel('Keep objects').check();
    await page.getByRole('button', { name: 'Show the plan' }).click();
    await page.getByRole('dialog').getByText('must begin with /').waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByLabel('Text of the file').fill('routes:\n- id: search\n  uri: /found\n  upstream_id: search\n');
    await page.getByRole('button', { name: 'Show the plan' }).click();
    await page.getByRole('button', { name: 'Apply if still r4127' }).click();
    await page.waitForURL(/changes\/4128/);
    assert.equal(stored('routes/search').uri, '/found');
    await page.getByRole('button', { name: 'Undo: back to r4127…' }).click();
    await page.getByRole('button', { name: 'Roll back if still r4128' }).click();
    await page.waitForURL(/changes\/4129/);
    await done();
  });

  it('apply_conflict', async () => {
    const { page, done } = await walk('/ui/changes?apply=1');
    await page.getByLabel('Text of the file').fill('routes:\n- id: search\n  uri: /found\n  upstream_id: search\n');
    await page.getByLabel('Keep objects').check();
    await page.getByRole('button', { name: 'Show the plan' }).click();
    await page.getByRole('button', { name: 'Apply if still r4127' }).waitFor();
    target.state.revision += 1;
    await page.getByRole('button', { name: 'Apply if still r4127' }).click();
    await page.getByText('was changed in the meantime. This is the new plan').waitFor();
    await page.getByText('Previous plan at r4127').waitFor();
    await page.getByRole('button', { name: 'Apply if still r4128' }).click();
    await page.waitForURL(/changes\/4129/);
    await done();
  });

  it('add_plugin_and_try', async () => {
    const { page, done } = await walk('/ui/plugins');
    await page.getByLabel('Filter plugins').fill('limit-req');
    await page.getByRole('link', { name: /limit-req/ }).click();
    await page.getByRole('tab', { name: 'Configure' }).click();
    await page.getByLabel('Object', { exact: true }).fill('search');
    await page.getByRole('button', { name: 'Take it' }).click();
    await page.locator('[id="configure/rate"]').fill('5');
    await page.locator('[id="configure/burst"]').fill('1');
    await page.locator('[id="configure/key"]').fill('remote_addr');
    await page.getByRole('button', { name: 'Try' }).click();
    await page.getByText('takes the request').waitFor();
    assert.deepEqual(target.state.lastQuestion.with.value.plugins['limit-req'], { rate: 5, burst: 1, key: 'remote_addr' });
    await page.getByRole('button', { name: 'Review and save' }).click();
    await page.getByRole('button', { name: 'Save if still r4127' }).click();
    await page.waitForURL(/\/ui\/routes\/search/);
    assert.deepEqual(stored('routes/search').plugins['limit-req'], { rate: 5, burst: 1, key: 'remote_addr' });
    await done();
  });
});
