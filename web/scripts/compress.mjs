/** Writes `.br` and `.gz` beside the built files. The output depends on nothing but the input. */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const DIST = process.env.WEIR_DIST ?? fileURLToPath(new URL('../dist', import.meta.url));
const KINDS = new Set(['.js', '.css', '.svg', '.html']);
/** The server fills a nonce into this file, so it is never sent as it is on disk. */
const PLAIN = new Set(['index.html']);

function* files(folder) {
  for (const name of readdirSync(folder).sort()) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) yield* files(path);
    else if (KINDS.has(extname(name)) && !PLAIN.has(name)) yield path;
  }
}

for (const path of files(DIST)) {
  const text = readFileSync(path);
  const brotli = brotliCompressSync(text, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: text.length },
  });
  writeFileSync(`${path}.br`, brotli);
  // zlib writes no name and no time into the header; byte 9 names the system it ran on, so it is fixed.
  const gzip = gzipSync(text, { level: 9 });
  gzip[9] = 255;
  writeFileSync(`${path}.gz`, gzip);
}
