/**
 * Opens the built site from its folder in Chromium: searches, and looks for faults of scripts, requests to other hosts and
 * pages that are wider than the window.
 *
 *     node docs/site/look.mjs SITE [--shots=FOLDER]
 */
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { browser, openPage } from '../../web/tests/e2e/lib.mjs';

const site = resolve(process.argv[2]);
const shots = process.argv.find((arg) => arg.startsWith('--shots='))?.slice(8);
const base = pathToFileURL(site).href;
const PAGES = ['index.html', 'guide/debugging-a-502.html', 'guide/coming-from-nginx.html', 'reference/plugins.html', 'reference/plugins/openid-connect.html'];

const { context, close } = await browser();
const faults = [];
const check = (isTrue, text) => isTrue || faults.push(text);

for (const scheme of ['light', 'dark']) {
  for (const width of [1440, 390]) {
    const { page, faults: found } = await openPage(context, base, { width, height: 900, scheme, clock: false });
    for (const name of shots ? PAGES : PAGES.slice(0, 2)) {
      await page.goto(`${base}/${name}`);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      check(overflow <= 0, `${name} is ${overflow} pixels wider than ${width}`);
      const shown = await page.evaluate(() => document.body.getAttribute('data-md-color-scheme'));
      check(shown === (scheme === 'dark' ? 'slate' : 'default'), `${name} is ${shown} where ${scheme} is asked for`);
      if (shots) {
        mkdirSync(shots, { recursive: true });
        await page.screenshot({ path: join(shots, `${name.replace(/\W/g, '-')}-${scheme}-${width}.png`) });
      }
    }
    found.forEach((fault) => faults.push(`${scheme} ${width}: ${fault}`));
    await page.close();
  }
}

const { page, faults: found } = await openPage(context, base, { clock: false });
await page.goto(`${base}/index.html`);
// The theme loads the index when the field gets the focus, and searches at each key.
const field = page.locator('input.md-search__input');
await field.click();
await field.pressSequentially('canary');
const first = page.locator('a.md-search-result__link').first();
await first.waitFor();
if (shots) await page.screenshot({ path: join(shots, 'search.png') });
await first.click();
await page.waitForURL(/\.html/);
check(/canaries\.html/.test(page.url()), `the search for "canary" leads to ${page.url()}`);
found.forEach((fault) => faults.push(`search: ${fault}`));
await close();

faults.forEach((fault) => console.error(fault));
console.log(`${faults.length} faults`);
process.exitCode = faults.length > 0 ? 1 : 0;
