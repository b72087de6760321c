/** Sentences for faults of a document that the page finds itself; they read as those of the server. */
import { brief, isObject, typeWord, valueAt, type Json } from './json';
import { nearest } from './nearest';

/** The type names of JSON Schema in the words that users read. */
const TYPE_WORDS: Record<string, string> = {
  integer: 'a whole number',
  number: 'a number',
  string: 'a text',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  null: 'null',
};

/** The sentence for one keyword of a schema that an instance does not meet; none for keywords that only group others. */
export function sentence(keyword: string, wanted: Json | undefined, schema: Json | undefined, value: Json | undefined): string | undefined {
  const comment = isObject(schema) && typeof schema.$comment === 'string' ? schema.$comment : undefined;
  switch (keyword) {
    case 'type': {
      const names = Array.isArray(wanted) ? wanted : [wanted];
      const words = names.map((name) => TYPE_WORDS[String(name)] ?? String(name)).join(' or ');
      return `expected ${words}, found ${typeWord(value)}`;
    }
    case 'enum':
      return `expected one of ${Array.isArray(wanted) ? wanted.map((item) => brief(item)).join(', ') : ''}, found ${brief(value, 40)}`;
    case 'const':
      return `expected ${brief(wanted)}, found ${brief(value, 40)}`;
    case 'minimum':
      return `expected at least ${brief(wanted)}, found ${brief(value, 40)}`;
    case 'maximum':
      return `expected at most ${brief(wanted)}, found ${brief(value, 40)}`;
    case 'exclusiveMinimum':
      return `expected more than ${brief(wanted)}, found ${brief(value, 40)}`;
    case 'exclusiveMaximum':
      return `expected less than ${brief(wanted)}, found ${brief(value, 40)}`;
    case 'minLength':
      return wanted === 1 ? 'must not be empty' : `expected at least ${brief(wanted)} characters`;
    case 'maxLength':
      return `expected at most ${brief(wanted)} characters`;
    case 'minItems':
      return wanted === 1 ? 'needs at least one item' : `needs at least ${brief(wanted)} items`;
    case 'maxItems':
      return `takes at most ${brief(wanted)} items`;
    case 'minProperties':
      return wanted === 1 ? 'needs at least one field' : `needs at least ${brief(wanted)} fields`;
    case 'maxProperties':
      return `takes at most ${brief(wanted)} ${wanted === 1 ? 'field' : 'fields'}`;
    case 'uniqueItems':
      return 'has an item twice';
    case 'pattern':
      return comment ? `expected ${comment}` : `expected a text of the form ${String(wanted)}`;
    case 'format':
      return `expected a text of the format ${String(wanted)}`;
    case 'multipleOf':
      return `expected a multiple of ${brief(wanted)}`;
    default:
      return undefined;
  }
}

/** The sentence for a field that a schema does not know. */
export function unknownField(name: string, known: readonly string[]): string {
  const guess = nearest(name, known);
  return guess ? `unknown field; did you mean ${guess}?` : 'unknown field';
}

/** The sentence for a document that fits none of several shapes. */
export function noneOf(schema: Json | undefined, wanted: Json | undefined): string {
  const comment = isObject(schema) && typeof schema.$comment === 'string' ? schema.$comment : undefined;
  if (comment) return comment;
  const lists = Array.isArray(wanted) ? wanted.map((branch) => valueAt(branch, '/required')) : [];
  if (lists.length > 0 && lists.every((list) => Array.isArray(list))) {
    const choices = lists.map((list) => (list as Json[]).map(String).join(' with '));
    return `needs one of these: ${choices.join('; ')}`;
  }
  const kinds = Array.isArray(wanted) ? wanted.map((branch) => TYPE_WORDS[String(valueAt(branch, '/type'))]) : [];
  if (kinds.length > 0 && kinds.every((kind) => kind !== undefined)) return `expected ${[...new Set(kinds)].join(' or ')}`;
  return 'fits none of the allowed forms';
}
