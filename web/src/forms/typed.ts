/**
 * Texts that do not parse yet, in the memory of the page: a view that goes away loses nothing that was typed. They are
 * not in the storage of the tab as drafts are, because a text that does not parse may hold secrets at unknown places.
 */
import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from 'react';

export interface Typed {
  text: string;
  /** The mistake in the text, and its place in characters. */
  error: string;
  at: number;
}

/** Most texts kept; the oldest goes first. A page has one source and a handful of fields. */
const MOST = 100;

const texts = new Map<string, Typed>();
const listeners = new Set<() => void>();

function told(): void {
  for (const listener of listeners) listener();
}

// Leaving the page itself asks, because its memory ends; the browser shows its own words.
function ask(event: BeforeUnloadEvent): void {
  if (texts.size > 0) event.preventDefault();
}

export function readTyped(place: string): Typed | null {
  return texts.get(place) ?? null;
}

/** Keeps a text, or forgets it when it parses. */
export function keepTyped(place: string, typed: Typed | null): void {
  if (typed === null && !texts.has(place)) return;
  texts.delete(place);
  if (typed !== null) texts.set(place, typed);
  for (const oldest of texts.keys()) {
    if (texts.size <= MOST) break;
    texts.delete(oldest);
  }
  window.removeEventListener('beforeunload', ask);
  if (texts.size > 0) window.addEventListener('beforeunload', ask);
  told();
}

/** Forgets the texts of all places below a prefix; all texts for an empty one. */
export function dropTyped(prefix: string): void {
  for (const place of [...texts.keys()]) if (place.startsWith(prefix)) keepTyped(place, null);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** The text kept for a place, or null. */
export function useTyped(place: string): Typed | null {
  const read = useCallback(() => readTyped(place), [place]);
  return useSyncExternalStore(subscribe, read);
}

/** The first mistake below a prefix, or null. */
export function useMistake(prefix: string): string | null {
  const read = useMemo(() => () => {
    for (const [place, typed] of texts) if (place.startsWith(prefix)) return typed.error;
    return null;
  }, [prefix]);
  return useSyncExternalStore(subscribe, read);
}

/** Whether something holds for longer than the pauses of typing, in which a text often does not parse for a moment. */
export function useSettled(holds: boolean): boolean {
  const [settled, setSettled] = useState(holds);
  useEffect(() => {
    if (!holds) {
      setSettled(false);
      return undefined;
    }
    const timer = window.setTimeout(() => setSettled(true), PAUSE_MS);
    return () => window.clearTimeout(timer);
  }, [holds]);
  return settled;
}

const PAUSE_MS = 700;
