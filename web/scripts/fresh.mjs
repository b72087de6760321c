/** Builds the sources into a folder of its own and compares it with the committed files; compressed ones by their content. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { build } from 'vite';

const root = fileURLToPath(new URL('..', import.meta.url));
const committed = join(root, 'dist');
const made = mkdtempSync(join(tmpdir(), 'weir-dist-'));

function* files(folder, below = folder) {
  for (const name of readdirSync(folder).sort()) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) yield* files(path, below);
    else yield relative(below, path);
  }
}

const faults = [];
try {
  await build({ root, logLevel: 'error', build: { outDir: made, emptyOutDir: true } });
  const now = new Set(files(made));
  const all = [...files(committed)];
  const kept = new Set(all.filter((name) => !/\.(br|gz)$/.test(name)));
  for (const name of now) if (!kept.has(name)) faults.push(`${name} is missing`);
  for (const name of kept) {
    const text = readFileSync(join(committed, name));
    if (!now.has(name)) faults.push(`${name} is not made by the sources`);
    else if (!text.equals(readFileSync(join(made, name)))) faults.push(`${name} differs`);
    if (name === 'index.html' || !/\.(js|css|svg)$/.test(name)) continue;
    for (const [suffix, open] of [['.br', brotliDecompressSync], ['.gz', gunzipSync]]) {
      if (!all.includes(name + suffix)) faults.push(`${name}${suffix} is missing`);
      else if (!open(readFileSync(join(committed, name + suffix))).equals(text)) faults.push(`${name}${suffix} has other content`);
    }
  }
} finally {
  rmSync(made, { recursive: true, force: true });
}
if (faults.length > 0) {
  console.error(`web/dist is not built from web/src; run npm run build in web/:\n${faults.join('\n')}`);
  process.exit(1);
}
