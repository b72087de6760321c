/** Choices of the user that outlive the tab. None of them is secret. */
import { useSyncExternalStore } from 'react';

const listeners = new Set<() => void>();

export function readPref(name: string): string | null {
  try {
    return window.localStorage.getItem(`weir.${name}`);
  } catch {
    return null;
  }
}

export function writePref(name: string, value: string): void {
  try {
    window.localStorage.setItem(`weir.${name}`, value);
  } catch {
    // the choice lasts for this page only
  }
  for (const listener of listeners) listener();
}

export function usePref(name: string, fallback: string): [string, (value: string) => void] {
  const value = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    () => readPref(name) ?? fallback,
  );
  return [value, (next) => writePref(name, next)];
}

/** Pages of objects that were opened last, newest first, for the palette. */
export function visited(): { path: string; label: string }[] {
  try {
    const list: unknown = JSON.parse(window.sessionStorage.getItem('weir.visited') ?? '[]');
    return Array.isArray(list) ? (list as { path: string; label: string }[]).slice(0, 10) : [];
  } catch {
    return [];
  }
}

export function visit(path: string, label: string): void {
  const list = [{ path, label }, ...visited().filter((each) => each.path !== path)].slice(0, 10);
  try {
    window.sessionStorage.setItem('weir.visited', JSON.stringify(list));
  } catch {
    // without storage there is no list
  }
}
