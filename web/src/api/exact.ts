/**
 * JSON whose numbers keep their digits. A number that JavaScript would write in another way than it was sent (whole
 * numbers above 2^53, `1.0`, `1e3`, `-0`) stands in a document as a text behind `MARK`, and is written as it was read.
 */

/** A character of the private use area, so that no text of a document begins with it by chance. */
const MARK = '\uE000';

const STRING = /"(?:[^"\\]|\\.)*"/g;
const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const MARKED = /^"(?:\uE000|\\u[eE]000)/;
const EXACT = /^\uE000(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Whether a value is a number that is kept by its digits. */
export function isExact(value: unknown): value is string {
  return typeof value === 'string' && EXACT.test(value);
}

/** Whether a value is a number, kept by its digits or not. */
export function isNumber(value: unknown): boolean {
  return typeof value === 'number' || isExact(value);
}

/** The value of a number as JSON writes it, or undefined for a text that is none. */
export function numberOf(digits: string): number | string | undefined {
  if (!NUMBER.test(digits)) return undefined;
  return String(Number(digits)) === digits ? Number(digits) : MARK + digits;
}

/** The text of a value that is a text or a number: the digits of a number, without the mark. */
export function plainText(value: string | number): string {
  return typeof value === 'number' ? String(value) : (EXACT.exec(value)?.[1] ?? (value.startsWith(MARK + MARK) ? value.slice(1) : value));
}

/** The nearest number of JavaScript, for comparisons that need one; other values stay. */
export function approximate<T>(value: T): T {
  if (isExact(value)) return Number(plainText(value)) as T;
  if (Array.isArray(value)) return value.map(approximate) as T;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, approximate(item)])) as T;
}

/** Reads a text. Throws the SyntaxError of JSON.parse for a text that is not JSON. */
export function readExact(text: string): unknown {
  const plain: unknown = JSON.parse(text);
  let changed = false;
  const marked = text.replace(STRING_OR_NUMBER, (token) => {
    if (token.startsWith('"')) {
      if (!MARKED.test(token)) return token;
      changed = true;
      return `"${MARK}${token.slice(1)}`;
    }
    if (String(Number(token)) === token) return token;
    changed = true;
    return `"${MARK}${token}"`;
  });
  return changed ? (JSON.parse(marked) as unknown) : plain;
}

/** Writes a value with the digits that were read. */
export function writeExact(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, null, indent);
  return text.includes(MARK) ? text.replace(STRING, (token) => {
    if (!token.startsWith(`"${MARK}`)) return token;
    const digits = EXACT.exec(token.slice(1, -1))?.[1];
    return digits ?? (token.startsWith(`"${MARK}${MARK}`) ? `"${token.slice(2)}` : token);
  }) : text;
}

/** A text of the YAML writer, which knows no marks, with the digits that were read. */
export function unmarkYaml(text: string): string {
  if (!text.includes(MARK)) return text;
  return text
    .replace(/(^|[-:?] )"?\uE000(-?\d[\d.eE+-]*)"?$/gm, '$1$2')
    .replace(/(^[ ]*|[-:?] )("?)\uE000\uE000/gm, `$1$2${MARK}`);
}

/** A scalar of the YAML reader as `readExact` gives it: a number by its source, a text that begins with the mark escaped. */
export function markYaml(value: unknown, source: string | undefined): unknown {
  if (typeof value === 'string') return value.startsWith(MARK) ? MARK + value : value;
  return typeof value === 'number' && source !== undefined ? (numberOf(source) ?? value) : value;
}
