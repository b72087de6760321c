/** Fails when a part of the built dashboard is larger than its budget (brotli, kilobytes of 1000 bytes). */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const DIST = process.env.WEIR_DIST ?? fileURLToPath(new URL('../dist', import.meta.url));
const BUDGET_KB = { first: 240, forms: 130, editor: 110, yaml: 40, chart: 22, page: 15, all: 600 };
/** Chunks of own code that belong to the forms. */
const FORMS = ['SchemaForm-'];

const assets = join(DIST, 'assets');
const size = (name) => statSync(join(assets, `${name}.br`)).size / 1000;
const names = readdirSync(assets).filter((name) => /\.(js|css)\.br$/.test(name)).map((name) => name.slice(0, -'.br'.length)).sort();
const html = readFileSync(join(DIST, 'index.html'), 'utf8');
const isFirst = (name) => html.includes(`/assets/${name}`);
const part = (name) => {
  if (isFirst(name)) return 'first';
  if (FORMS.some((prefix) => name.startsWith(prefix))) return 'forms';
  return Object.keys(BUDGET_KB).find((key) => name.startsWith(`${key}-`)) ?? 'page';
};

const sums = { first: 0, forms: 0, editor: 0, yaml: 0, chart: 0, all: 0 };
const faults = [];
for (const name of names) {
  const kb = size(name);
  const key = part(name);
  sums.all += kb;
  if (key === 'page') {
    if (kb > BUDGET_KB.page) faults.push(`${name}: ${kb.toFixed(1)} kB, budget of a page ${BUDGET_KB.page} kB`);
    if (process.argv.includes('--all')) console.log(`  ${kb.toFixed(1).padStart(7)}  ${name}`);
  } else sums[key] += kb;
}
for (const [key, kb] of Object.entries(sums)) {
  console.log(`${key.padEnd(7)} ${kb.toFixed(1).padStart(7)} kB of ${BUDGET_KB[key]}`);
  if (kb > BUDGET_KB[key]) faults.push(`${key}: ${kb.toFixed(1)} kB, budget ${BUDGET_KB[key]} kB`);
}
if (faults.length > 0) {
  console.error(faults.join('\n'));
  process.exit(1);
}
