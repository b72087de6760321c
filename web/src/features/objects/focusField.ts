/** Brings the field of a pointer into view and focuses it. */
import { tokensOf, escapeToken } from '../../forms/json';

/** Focuses the field of a pointer, or unless `exact` of its nearest ancestor that the form shows. Says whether there was one. */
export function focusField(pointer: string, exact = false): boolean {
  const tokens = tokensOf(pointer);
  for (let length = tokens.length; length > (exact ? tokens.length - 1 : 0); length -= 1) {
    const place = tokens.slice(0, length).map((token) => `/${escapeToken(token)}`).join('');
    const found = document.querySelector<HTMLElement>(`.w-form [data-pointer="${CSS.escape(place)}"]`);
    if (!found) continue;
    found.scrollIntoView({ block: 'center' });
    // The button that removes a field stands before its input.
    const input = found.querySelector<HTMLElement>('input, select, textarea') ?? found.querySelector<HTMLElement>('button');
    input?.focus({ preventScroll: true });
    return true;
  }
  return false;
}

/** Tries until the field is there: folds open by themselves when the faults in them arrive. */
const TRIES = 20;
const PAUSE_MS = 100;

export function focusSoon(pointer: string, tries = TRIES): void {
  if (focusField(pointer, true)) return;
  if (tries > 0) window.setTimeout(() => focusSoon(pointer, tries - 1), PAUSE_MS);
  else focusField(pointer);
}
