/** A list of 10,000 routes in a real instance: its first rows, sort, filter, scroll, many changes at once, the palette. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { visit } from '../e2e/lib.mjs';
import { ORIGIN, SKIP, call, put, stored, walks } from './object-parts.mjs';

const ROUTES = 10_000;
const name = (index) => `bulk-${String(index).padStart(5, '0')}`;

describe('list', { skip: SKIP }, () => {
  const shared = walks();
  before(async () => {
    await put(shared.target, 'upstreams/base', { type: 'roundrobin', nodes: { [ORIGIN]: 1 } });
    const routes = Array.from({ length: ROUTES }, (_, index) => ({ id: name(index), name: `route ${index}`, uri: `/bulk/${index}/*`, host: `h${index % 100}.example`, methods: ['GET'], upstream_id: 'base', priority: index % 7, labels: { team: `t${index % 5}` }, ...(index % 10 === 0 ? { plugins: { 'request-id': {} } } : {}) }));
    const answer = await call(shared.target, 'POST', 'weir/apply?keep_others=true', { routes });
    assert.equal(answer.status, 200, JSON.stringify(answer.data).slice(0, 400));
  });

  it('list_10000_routes', async (context) => {
    const { page, done } = await shared.walk('/ui/faults');
    await visit(page, '/routes');
    const first = page.locator('.cell-open').first();
    await first.waitFor();
    // A second visit without what the first one kept: the code is there, the rows are not.
    await visit(page, '/faults');
    await page.getByRole('heading', { name: 'Faults' }).waitFor();
    const toFirst = await page.evaluate(async () => {
      const begun = performance.now();
      window.history.pushState({}, '', '/ui/routes?sort=-name');
      window.dispatchEvent(new PopStateEvent('popstate', { state: {} }));
      while (document.querySelector('.cell-open')?.textContent !== 'route 9999') await new Promise(requestAnimationFrame);
      return performance.now() - begun;
    });
    const grid = page.getByRole('grid');
    assert.equal(Number(await grid.getAttribute('aria-rowcount')), ROUTES + 1);
    assert.ok(await grid.getByRole('row').count() < 60);
    await page.getByRole('columnheader', { name: 'Name' }).getByRole('button').click();
    await page.waitForFunction(() => document.querySelector('.cell-open')?.textContent === 'route 0');
    const toFilter = await page.evaluate(async () => {
      const input = document.querySelector('[aria-label="Filter routes"]');
      const begun = performance.now();
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(input, 'host:h42.example plugin:request-id,nothing -label:team:t9 bulk/4');
      input.dispatchEvent(new Event('input', { bubbles: true }));
      while (!/^0 of/.test(document.querySelector('.list-count')?.textContent ?? '')) await new Promise(requestAnimationFrame);
      return performance.now() - begun;
    });
    await page.getByLabel('Filter routes').fill('host:h42.example');
    await page.waitForFunction(() => document.querySelector('.list-count')?.textContent === '100 of 10,000');
    await page.getByLabel('Filter routes').fill('host:h42.example nonsense:x');
    const caret = page.locator('.query-error pre');
    await caret.waitFor();
    assert.equal((await caret.textContent()).split('\n')[1].indexOf('^'), 'host:h42.example '.length);
    await page.getByLabel('Filter routes').fill('');
    await page.waitForFunction(() => document.querySelector('.list-count')?.textContent === '10,000');
    const frames = await page.evaluate(async () => {
      const grid = document.querySelector('[role=grid]');
      const gaps = [];
      let last = performance.now();
      for (let step = 1; step <= 40; step += 1) {
        grid.scrollTop += 2_000;
        await new Promise(requestAnimationFrame);
        gaps.push(performance.now() - last);
        last = performance.now();
      }
      return gaps.sort((a, b) => a - b);
    });
    await grid.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await page.waitForFunction(() => document.querySelector('.list-foot')?.textContent?.includes('to 10,000 of'));
    await page.locator('.cell-open').last().getByText('route 9999').waitFor();
    assert.ok(await grid.getByRole('row').count() < 60);
    context.diagnostic(`first row ${toFirst.toFixed(0)} ms, filter ${toFilter.toFixed(0)} ms, frames while scrolling: median ${frames[20].toFixed(0)} ms, longest ${frames[39].toFixed(0)} ms`);
    // Far above what is expected, because a test machine may be busy.
    assert.ok(toFirst < 3_000 && toFilter < 3_000, `${toFirst} ${toFilter}`);
    await done();
  });

  it('every_column_sorts_or_has_no_arrow', async () => {
    const { page, faults, done } = await shared.walk('/ui/routes?cols=state,name,id,methods,hosts,priority,rps,p5xx,p99,created,changed');
    const refused = [];
    page.on('response', (response) => {
      if (response.url().includes('/weir/objects/') && response.status() >= 400) refused.push(response.url());
    });
    const buttons = page.getByRole('columnheader').getByRole('button');
    await buttons.first().waitFor();
    for (let at = 0; at < await buttons.count(); at += 1) {
      const answer = page.waitForResponse((response) => response.url().includes('/weir/objects/routes') && response.url().includes('offset=0'));
      await buttons.nth(at).click();
      await answer;
    }
    assert.deepEqual(refused, []);
    assert.deepEqual(faults, []);
    await done();
  });

  it('many_are_disabled_labelled_and_deleted', async () => {
    const { page, done } = await shared.walk('/ui/routes?q=bulk-0000&sel=bulk-00001,bulk-00002,bulk-00003');
    const bar = page.getByRole('toolbar', { name: 'Selected objects' });
    await bar.getByRole('button', { name: 'Disable' }).click();
    await page.getByRole('dialog').getByText('3 changed').waitFor();
    await page.getByRole('button', { name: /Apply if still r/ }).click();
    await page.getByText(/Saved as r/).waitFor();
    assert.equal((await stored(shared.target, 'routes/bulk-00002')).status, 0);
    assert.deepEqual((await stored(shared.target, 'routes/bulk-00002')).labels, { team: 't2' });
    await visit(page, '/routes?q=state:off');
    await page.waitForFunction(() => document.querySelector('.list-count')?.textContent === '3 of 10,000');
    await visit(page, '/routes?q=bulk-0000&sel=bulk-00001,bulk-00002');
    await page.reload();
    await bar.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('dialog').getByText('2 deleted').waitFor();
    await page.getByRole('button', { name: /Delete if still r/ }).click();
    await page.getByText(/Saved as r/).waitFor();
    assert.equal(await stored(shared.target, 'routes/bulk-00001'), undefined);
    await page.waitForFunction(() => document.querySelector('.list-count')?.textContent?.endsWith('of 9,998'));
    await done();
  });

  it('palette_finds_all_kinds', async () => {
    const plugins = { 'request-id': {} };
    const made = {
      'routes/findme-route': { uri: '/findme', upstream_id: 'base' }, 'services/findme-service': { upstream_id: 'base' }, 'upstreams/findme-upstream': { type: 'roundrobin', nodes: { [ORIGIN]: 1 } },
      'plugin_configs/findme-config': { plugins }, 'consumer_groups/findme-group': { plugins }, 'global_rules/findme-rule': { plugins }, 'consumers/findmeconsumer': { username: 'findmeconsumer' },
      'protos/findme-proto': { content: 'syntax = "proto3";\nmessage B { string c = 1; }\n' }, 'secrets/vault/findme-secret': { uri: 'http://127.0.0.1:8200', prefix: 'kv', token: 'findme-token-0' },
    };
    for (const [key, value] of Object.entries(made)) await put(shared.target, key, value);
    const { page, done } = await shared.walk('/ui/faults');
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog').getByRole('combobox').fill('findme');
    for (const key of Object.keys(made)) {
      await page.getByRole('option').filter({ hasText: key.split('/').at(-1) }).first().waitFor();
    }
    assert.ok(!(await page.content()).includes('findme-token-0'));
    await page.keyboard.press('Enter');
    await page.waitForURL(/findme/);
    await done();
  });
});
