/** Builds the sources into a folder of its own and compares it with the committed files; compressed ones by their content. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync } from 'node:zlib';
import { build } from 'vite';
import { files, isBrotli } from './stored.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const committed = join(root, 'dist');
const made = mkdtempSync(join(tmpdir(), 'weir-dist-'));

const faults = [];
try {
  await build({ root, logLevel: 'error', build: { outDir: made, emptyOutDir: true } });
  const kept = new Set(files(committed));
  for (const name of files(made)) {
    const stored = isBrotli(name) ? `${name}.br` : name;
    if (!kept.delete(stored)) {
      faults.push(`${stored} is missing`);
      continue;
    }
    const bytes = readFileSync(join(committed, stored));
    const content = isBrotli(name) ? brotliDecompressSync(bytes) : bytes;
    if (!content.equals(readFileSync(join(made, name)))) faults.push(`${stored} differs`);
  }
  for (const name of kept) faults.push(`${name} is not made by the sources`);
} finally {
  rmSync(made, { recursive: true, force: true });
}
if (faults.length > 0) {
  console.error(`web/dist is not built from web/src; run npm run build in web/:\n${faults.join('\n')}`);
  process.exit(1);
}
