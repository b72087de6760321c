/** Puts the Brotli form in the place of each built text. The output depends on nothing but the input. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants } from 'node:zlib';
import { files, isBrotli } from './stored.mjs';

const DIST = process.env.WEIR_DIST ?? fileURLToPath(new URL('../dist', import.meta.url));

for (const name of [...files(DIST)].filter(isBrotli)) {
  const path = join(DIST, name);
  const text = readFileSync(path);
  const brotli = brotliCompressSync(text, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: text.length },
  });
  writeFileSync(`${path}.br`, brotli);
  rmSync(path);
}
