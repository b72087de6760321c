/** The Admin key of this tab: in `sessionStorage`, or only in memory when the user chose so. */

const KEY = 'weir.key';
const MODE = 'weir.key.mode';

export type KeyMode = 'tab' | 'memory';
let inMemory: string | null = null;

function storage(): Storage | null {
  try {
    return window.sessionStorage;
  } catch {
    return null; // the browser forbids storage on this page
  }
}

export function keyMode(): KeyMode {
  return storage()?.getItem(MODE) === 'memory' ? 'memory' : 'tab';
}

export function readKey(): string | null {
  return inMemory ?? storage()?.getItem(KEY) ?? null;
}

export function writeKey(key: string, mode: KeyMode): void {
  inMemory = key;
  const store = storage();
  store?.setItem(MODE, mode);
  if (mode === 'tab') store?.setItem(KEY, key);
  else store?.removeItem(KEY);
}

export function clearKey(): void {
  inMemory = null;
  storage()?.removeItem(KEY);
}
