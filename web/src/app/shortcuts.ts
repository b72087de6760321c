/** Keys of the whole page: the palette, the filter, help, and `g` with a letter for each page. */
import { useEffect, useRef } from 'react';
import { PAGES } from './pages';
import { readPref } from './prefs';
import { go } from './url';

/** Whether an element takes letters itself. */
export function takesText(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName);
}

/** Whether single-letter keys are on; a user can switch them off. */
export function lettersOn(): boolean {
  return readPref('letters') !== 'off';
}

/** Whether a key event is a single letter for the page: no field, no dialog, no modifier. */
export function isLetter(event: KeyboardEvent): boolean {
  return lettersOn() && !event.ctrlKey && !event.metaKey && !event.altKey && !event.defaultPrevented && !takesText(event.target)
    && document.querySelector('[aria-modal=true]') === null;
}

/** Calls `take` for single-letter keys; it says whether it took the key. */
export function useLetters(take: (key: string, event: KeyboardEvent) => boolean): void {
  const latest = useRef(take);
  latest.current = take;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (isLetter(event) && !pending.g && latest.current(event.key, event)) event.preventDefault();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
}

const pending = { g: false };

interface Handlers { onPalette: () => void; onHelp: () => void; enabled: boolean }

export function useShortcuts({ onPalette, onHelp, enabled }: Handlers): void {
  useEffect(() => {
    if (!enabled) return;
    let timer: number | undefined;
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        onPalette();
        return;
      }
      if (!isLetter(event)) return;
      if (pending.g) {
        pending.g = false;
        window.clearTimeout(timer);
        const page = PAGES.find((each) => each.letter === event.key);
        if (page) {
          event.preventDefault();
          event.stopImmediatePropagation();
          go(page.path);
        }
        return;
      }
      if (event.key === 'g') {
        pending.g = true;
        timer = window.setTimeout(() => (pending.g = false), 1500);
      } else if (event.key === '/') {
        const field = document.querySelector<HTMLInputElement>('main [data-filter]');
        if (field) {
          event.preventDefault();
          field.focus();
          field.select();
        }
      } else if (event.key === '?') {
        event.preventDefault();
        onHelp();
      }
    };
    document.addEventListener('keydown', onKey, true);
    return () => {
      window.clearTimeout(timer);
      document.removeEventListener('keydown', onKey, true);
    };
  }, [onPalette, onHelp, enabled]);
}
