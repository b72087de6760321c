/** Places of pointers in a JSON text, and the pointer at a place. */
import { escapeToken, tokensOf } from './json';

export type Syntax = 'json' | 'yaml';

/** The range of a value in characters; `from` is the start of its key where it has one. */
export interface Range {
  from: number;
  to: number;
}

/** The range of a pointer or, where the text does not have it, of its nearest ancestor. */
export function rangeOf(places: Map<string, Range>, pointer: string): Range | undefined {
  const tokens = tokensOf(pointer);
  for (let length = tokens.length; length >= 0; length -= 1) {
    const found = places.get(tokens.slice(0, length).map((token) => `/${escapeToken(token)}`).join(''));
    if (found) return found;
  }
  return undefined;
}

/** The deepest pointer that covers a character. */
export function pointerAt(places: Map<string, Range>, at: number): string {
  let [best, size] = ['', Number.POSITIVE_INFINITY];
  for (const [pointer, range] of places) {
    if (range.from <= at && at <= range.to && range.to - range.from < size) {
      [best, size] = [pointer, range.to - range.from];
    }
  }
  return best;
}

/** A depth that no object of the Admin API reaches; deeper texts are not walked, so that the stack does not overflow. */
export const MAX_DEPTH = 200;

/** Every pointer of a text with its range. A text that does not parse gives the places before the mistake. */
export function locateJson(text: string): Map<string, Range> {
  const places = new Map<string, Range>();
  let at = 0;
  const blank = () => {
    while (at < text.length && ' \t\r\n'.includes(text[at] as string)) at += 1;
  };
  const word = (): string | undefined => {
    if (text[at] !== '"') return undefined;
    const from = at;
    for (at += 1; at < text.length && text[at] !== '"'; at += 1) if (text[at] === '\\') at += 1;
    at += 1;
    try {
      return JSON.parse(text.slice(from, at)) as string;
    } catch {
      return undefined;
    }
  };
  const value = (pointer: string, from: number, depth: number): boolean => {
    blank();
    const open = text[at];
    const start = from;
    let good = depth < MAX_DEPTH;
    if (!good) return false;
    if (open === '{' || open === '[') good = container(pointer, open === '{', depth);
    else if (open === '"') good = word() !== undefined;
    else {
      const begin = at;
      while (at < text.length && !',]}\n\r\t '.includes(text[at] as string)) at += 1;
      good = at > begin;
    }
    places.set(pointer, { from: start, to: at });
    return good;
  };
  const container = (pointer: string, object: boolean, depth: number): boolean => {
    const close = object ? '}' : ']';
    at += 1;
    for (let index = 0; ; index += 1) {
      blank();
      if (text[at] === close) {
        at += 1;
        return true;
      }
      const from = at;
      let token: string | undefined = String(index);
      if (object) {
        token = word();
        blank();
        if (token === undefined || text[at] !== ':') return false;
        at += 1;
        blank();
      }
      if (!value(`${pointer}/${escapeToken(token)}`, from, depth + 1)) return false;
      blank();
      if (text[at] === ',') at += 1;
      else if (text[at] !== close) return false;
    }
  };
  blank();
  value('', at, 0);
  return places;
}
