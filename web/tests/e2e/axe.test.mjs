/** Each page in both themes and widths: axe without a finding. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { PAGES } from '../shots/pages.mjs';
import { browser, instance, openPage, settled, signIn } from './lib.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
let target;
let chromium;
before(async () => {
  target = await instance();
  chromium = await browser();
});
after(async () => {
  await chromium.close();
  await target.close();
});

/** Findings as lines: rule, page, place. */
async function findings(page, name) {
  const result = await page.evaluate(async () => {
    const found = await window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] });
    return found.violations.map((each) => ({ id: each.id, nodes: each.nodes.slice(0, 3).map((node) => `${node.target.join(' ')} ${node.any[0]?.message ?? ''}`) }));
  });
  return result.flatMap((each) => each.nodes.map((node) => `${name}: ${each.id}: ${node}`));
}

for (const [scheme, width] of [['light', 1440], ['dark', 1440], ['light', 390], ['dark', 390]]) {
  test(`axe_finds_nothing_${scheme}_${width}`, async () => {
    const { page } = await openPage(chromium.context, target.url, { width, height: width < 720 ? 844 : 900, scheme });
    await page.addInitScript(AXE);
    const all = [];
    await page.goto(`${target.url}/ui/`);
    await page.getByLabel('Admin key', { exact: true }).waitFor();
    all.push(...(await findings(page, 'login')));
    await signIn(page, target);
    for (const { name, path, before: prepare } of PAGES) {
      await page.goto(`${target.url}/ui${path}`);
      await settled(page);
      if (prepare) {
        await prepare(page);
        await page.waitForTimeout(400);
      }
      all.push(...(await findings(page, name)));
    }
    assert.deepEqual([...new Set(all)], []);
    await page.close();
  });
}
