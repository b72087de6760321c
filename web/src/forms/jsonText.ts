/** JSON texts of a document, read and written, with the place of a mistake. */
import { readExact, writeExact } from '../api/exact';
import type { Json } from './json';

/** A text that was read, or the mistake in it with its place in characters. */
export type Parsed = { document: Json; error?: undefined } | { document?: undefined; error: string; at: number };

/** Writes a document with two spaces an indent. */
export function renderJson(document: Json): string {
  return `${writeExact(document, 2)}\n`;
}

/** Reads a text. An empty text is a mistake, because an object is needed. */
export function parseJson(text: string): Parsed {
  if (text.trim() === '') return { error: 'The text is empty; write {} for an object without fields.', at: 0 };
  try {
    return { document: readExact(text) as Json };
  } catch (cause) {
    const at = failsAt(text);
    return { error: sentenceOf(text, at, cause), at };
  }
}

/** The place of the first mistake: the shortest prefix that no continuation can repair, found by a strict reader. */
function failsAt(text: string): number {
  let at = 0;
  const blank = () => {
    while (at < text.length && /\s/.test(text[at] as string)) at += 1;
  };
  const literal = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])/y;
  const string = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
  const take = (pattern: RegExp) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) return false;
    at = pattern.lastIndex;
    return true;
  };
  const value = (depth: number): boolean => {
    blank();
    if (depth > 500) return false;
    if (text[at] === '{' || text[at] === '[') return container(text[at] === '{', depth);
    return take(string) || take(literal);
  };
  const container = (object: boolean, depth: number): boolean => {
    const close = object ? '}' : ']';
    at += 1;
    blank();
    if (text[at] === close) {
      at += 1;
      return true;
    }
    for (;;) {
      blank();
      if (object) {
        if (!take(string)) return false;
        blank();
        if (text[at] !== ':') return false;
        at += 1;
      }
      if (!value(depth + 1)) return false;
      blank();
      if (text[at] === close) {
        at += 1;
        return true;
      }
      if (text[at] !== ',') return false;
      at += 1;
    }
  };
  if (value(0)) blank();
  return Math.min(at, text.length);
}

function sentenceOf(text: string, at: number, cause: unknown): string {
  if (at >= text.length) return 'The text ends too early: a bracket or a quote is not closed.';
  const found = text[at] as string;
  const rest = text.slice(at);
  if (found === '}' || found === ']') return `Unexpected ${found}: there may be a comma too much before it.`;
  if (found === "'") return 'Texts are quoted with ", not with \'.';
  if (/^\/[/*]/.test(rest)) return 'JSON has no comments; YAML has them, behind #.';
  if (/^[A-Za-z_]/.test(rest)) return `Unexpected ${(/^\w{1,20}/.exec(rest) ?? [found])[0]}: names and texts need quotes.`;
  if (found === '"') return 'Unexpected text: a comma may be missing before it.';
  return cause instanceof Error && found === undefined ? cause.message : `Unexpected ${JSON.stringify(found)}.`;
}

/** The one replacement that turns `before` into `after`: equal characters at both ends stay, and the cursor with them. */
export function smallestEdit(before: string, after: string): { from: number; to: number; insert: string } | null {
  if (before === after) return null;
  let from = 0;
  const most = Math.min(before.length, after.length);
  while (from < most && before[from] === after[from]) from += 1;
  let same = 0;
  while (same < most - from && before[before.length - 1 - same] === after[after.length - 1 - same]) same += 1;
  return { from, to: before.length - same, insert: after.slice(from, after.length - same) };
}
