/** Brings the field of a pointer into view and focuses it. */
import { tokensOf, escapeToken } from '../../forms/json';

/** Focuses the field of a pointer, or of its nearest ancestor that the form shows. Says whether there was one. */
export function focusField(pointer: string): boolean {
  const tokens = tokensOf(pointer);
  for (let length = tokens.length; length > 0; length -= 1) {
    const place = tokens.slice(0, length).map((token) => `/${escapeToken(token)}`).join('');
    const found = document.querySelector<HTMLElement>(`.w-form [data-pointer="${CSS.escape(place)}"]`);
    if (!found) continue;
    found.scrollIntoView({ block: 'center' });
    found.querySelector<HTMLElement>('input, select, textarea, button')?.focus({ preventScroll: true });
    return true;
  }
  return false;
}
