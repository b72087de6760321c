/** What axe finds on a page in both themes. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/** The script of axe, for `page.evaluate` or `page.addInitScript`. */
export const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** All rules that the pages keep. */
export const ALL = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

async function findings(page, name, rules) {
  const found = await page.evaluate(async (rules) => {
    const { violations } = await window.axe.run(document, { runOnly: rules, resultTypes: ['violations'] });
    return violations.map((each) => ({ id: each.id, nodes: each.nodes.slice(0, 3).map((node) => `${node.target.join(' ')} ${node.any[0]?.message ?? ''}`) }));
  }, rules);
  return found.flatMap((each) => each.nodes.map((node) => `${name}: ${each.id}: ${node}`));
}

/** The rules that look at colours, in which alone the themes differ. */
export const OF_COLOURS = ['color-contrast', 'link-in-text-block'];

/** Findings as lines: page, theme, rule, place. All rules hold in the light theme, `dark` in the dark one. */
export async function findingsInBothThemes(page, name, dark) {
  const all = [];
  for (const [scheme, rules] of [['dark', dark], ['light', ALL]]) {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    await page.locator(`html[data-mantine-color-scheme=${scheme}]`).waitFor({ state: 'attached' });
    all.push(...(await findings(page, `${name} ${scheme}`, rules)));
  }
  return all;
}
