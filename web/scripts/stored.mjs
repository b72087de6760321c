/** How the built files are stored in `dist`: texts only as Brotli, with `.br` behind their name, everything else as it is. */
import { readdirSync, statSync } from 'node:fs';
import { extname, join, relative } from 'node:path';

const TEXTS = new Set(['.js', '.css', '.svg', '.html']);
/** The server fills a nonce into this file for each request. */
const PLAIN = new Set(['index.html']);

/** Whether the built file with this name is stored as Brotli. */
export function isBrotli(name) {
  return TEXTS.has(extname(name)) && !PLAIN.has(name);
}

/** The names of all files in a folder and below it, in order. */
export function* files(folder, below = folder) {
  for (const name of readdirSync(folder).sort()) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) yield* files(path, below);
    else yield relative(below, path);
  }
}
