/**
 * Takes pictures of the pages in both themes and both widths.
 *
 *     node tests/shots/take.mjs [FOLDER] [--only=overview,traffic] [--full]
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { browser, instance, openPage, settled, signIn } from '../e2e/lib.mjs';
import { PAGES } from './pages.mjs';

const args = process.argv.slice(2);
const folder = args.find((arg) => !arg.startsWith('--')) ?? fileURLToPath(new URL('./out', import.meta.url));
const only = args.find((arg) => arg.startsWith('--only='))?.slice(7).split(',');
const sizes = (args.find((arg) => arg.startsWith('--size='))?.slice(7) ?? '1440,390').split(',').map(Number);
const schemes = (args.find((arg) => arg.startsWith('--theme='))?.slice(8) ?? 'light,dark').split(',');
mkdirSync(folder, { recursive: true });

const target = await instance();
const { context, close } = await browser();
let failed = 0;
for (const scheme of schemes) {
  for (const width of sizes) {
    const { page, faults } = await openPage(context, target.url, { width, height: width < 720 ? 844 : 900, scheme });
    await signIn(page, target);
    for (const { name, path, before } of PAGES) {
      if (only && !only.includes(name)) continue;
      try {
        await page.evaluate((to) => window.history.pushState({}, '', to), '/ui/overview');
        await page.goto(`${target.url}/ui${path}`);
        await settled(page);
        if (before) {
          await before(page);
          await page.waitForTimeout(400);
          await settled(page);
        }
        await page.screenshot({ path: join(folder, `${name}-${scheme}-${width}.png`), fullPage: args.includes('--full') });
      } catch (error) {
        faults.push(`${name}: ${error.message.split('\n')[0]}`);
      }
    }
    for (const fault of faults) {
      failed += 1;
      console.error(`${scheme} ${width}: ${fault}`);
    }
    await page.close();
  }
}
await close();
await target.close();
process.exitCode = failed > 0 ? 1 : 0;
