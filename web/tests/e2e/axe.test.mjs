/** Each page in both themes and widths: axe without a finding. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { PAGES } from '../shots/pages.mjs';
import { ALL, AXE, findingsInBothThemes } from './axe.mjs';
import { browser, instance, openPage, settled, signIn, visitPage } from './lib.mjs';

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

for (const width of [1440, 390]) {
  test(`axe_finds_nothing_${width}`, async () => {
    const { page } = await openPage(chromium.context, target.url, { width, height: width < 720 ? 844 : 900 });
    await page.addInitScript(AXE);
    const all = [];
    await page.goto(`${target.url}/ui/`);
    await page.getByLabel('Admin key', { exact: true }).waitFor();
    all.push(...(await findingsInBothThemes(page, 'login', ALL)));
    await signIn(page, target);
    let isAltered = false;
    for (const { name, path, before: prepare } of PAGES) {
      // Loading takes a second of the processor, so that only a page that was altered is loaded anew.
      if (isAltered) await page.goto(`${target.url}/ui${path}`);
      else await visitPage(page, path);
      await settled(page);
      if (prepare) {
        await prepare(page);
        await page.waitForTimeout(400);
      }
      isAltered = prepare !== undefined;
      all.push(...(await findingsInBothThemes(page, name, ALL)));
    }
    assert.deepEqual([...new Set(all)], []);
    await page.close();
  });
}
