/**
 * Checks documents by JSON Schema without compiling code, because the page's policy forbids it. The server's check of
 * a plan is the binding one; this one answers at once and decides conditions of schemas.
 */
import { Validator } from '@cfworker/json-schema';
import type { RJSFSchema, ValidationData, ValidatorType } from '@rjsf/utils';
import { approximate } from '../api/exact';
import { isObject, pointerOf, tokensOf, valueAt, type Json } from './json';
import { noneOf, sentence, unknownField } from './words';

/** A fault of a document at a place in it. */
export interface Fault {
  pointer: string;
  reason: string;
}

/** Keywords that only hold others; the failure of an inner keyword says more. */
const GROUPS = new Set(['properties', 'patternProperties', 'items', 'prefixItems', 'allOf', 'then', 'else', 'if', '$ref', 'dependentSchemas', 'propertyNames', 'contains']);
/** Faults listed; a document with more is not read by a person field by field. */
const MAX_FAULTS = 200;

const known = new WeakMap<object, Validator | null>();

function validatorOf(schema: object): Validator | null {
  const found = known.get(schema);
  if (found !== undefined) return found;
  let made: Validator | null = null;
  try {
    made = new Validator(schema, '2019-09', false);
  } catch {
    // A schema that this library cannot read is left to the server.
  }
  known.set(schema, made);
  return made;
}

/** The faults of a document, by place; none for a schema that cannot be read here. */
export function check(schema: object, document: Json | undefined): Fault[] {
  const validator = validatorOf(schema);
  if (!validator || document === undefined) return [];
  let errors;
  try {
    errors = validator.validate(approximate(document)).errors;
  } catch {
    // A pattern that this browser's expressions do not have.
    return [];
  }
  const faults: Fault[] = [];
  const silenced: string[] = [];
  for (const error of errors) {
    const place = decode(error.keywordLocation);
    const pointer = decode(error.instanceLocation);
    if (error.keyword === 'oneOf' || error.keyword === 'anyOf' || error.keyword === 'not') silenced.push(`${place}/`);
    const described = describe(error.keyword, place, pointer, schema as Json, document);
    if (described.length > 0 && !faults.some((one) => one.pointer === described[0]?.pointer && one.reason === described[0]?.reason)) {
      faults.push(...described.map((fault) => ({ ...fault, place })) as Fault[]);
    }
  }
  const outer = (faults as (Fault & { place?: string })[]).filter((fault) => !silenced.some((prefix) => fault.place?.startsWith(prefix)));
  return outer.slice(0, MAX_FAULTS).map(({ pointer, reason }) => ({ pointer, reason }));
}

/** Whether a document meets a schema. True for a schema that cannot be read here. */
export function meets(schema: object, document: Json | undefined): boolean {
  const validator = validatorOf(schema);
  if (!validator || document === undefined) return document === undefined ? false : true;
  try {
    return validator.validate(approximate(document)).valid;
  } catch {
    return true;
  }
}

function decode(location: string): string {
  const text = location.startsWith('#') ? location.slice(1) : location;
  try {
    return decodeURI(text);
  } catch {
    return text;
  }
}

function describe(keyword: string, place: string, pointer: string, schema: Json, document: Json): Fault[] {
  if (GROUPS.has(keyword)) return [];
  const tokens = tokensOf(place);
  const owner = valueAt(schema, pointerOf(tokens.slice(0, -1)));
  const wanted = valueAt(schema, place);
  const value = valueAt(document, pointer);
  if (keyword === 'required') {
    const missing = Array.isArray(wanted) ? wanted.map(String) : [];
    const absent = missing.filter((name) => !isObject(value) || !Object.hasOwn(value, name));
    return absent.map((name) => ({ pointer: pointer + pointerOf([name]), reason: 'is required' }));
  }
  if (keyword === 'additionalProperties' || keyword === 'false') {
    if (!isObject(owner) || !isObject(value) || !isObject(owner.properties)) {
      return keyword === 'false' ? [] : [{ pointer, reason: 'has a field that is not allowed' }];
    }
    const names = Object.keys(owner.properties);
    const strange = owner.additionalProperties === false ? Object.keys(value).filter((name) => !names.includes(name)) : [];
    const fixed = strange.filter((name) => !matchesPattern(owner.patternProperties, name));
    return fixed.map((name) => ({ pointer: pointer + pointerOf([name]), reason: unknownField(name, names) }));
  }
  if (keyword === 'oneOf' || keyword === 'anyOf') return [{ pointer, reason: noneOf(owner, wanted) }];
  if (keyword === 'not') {
    const barred = valueAt(wanted, '/required');
    if (Array.isArray(barred)) return [{ pointer, reason: `must not have ${barred.map(String).join(' and ')} here` }];
    return [{ pointer, reason: 'has fields that exclude each other' }];
  }
  const reason = sentence(keyword, wanted, owner, value);
  return reason ? [{ pointer, reason }] : [];
}

function matchesPattern(patterns: Json | undefined, name: string): boolean {
  if (!isObject(patterns)) return false;
  return Object.keys(patterns).some((pattern) => {
    try {
      return new RegExp(pattern, 'u').test(name);
    } catch {
      return true;
    }
  });
}

/** The validator that the form library asks. Faults reach fields through the form's context, so it reports none. */
export const formValidator: ValidatorType<unknown, RJSFSchema> = {
  validateFormData: () => ({ errors: [], errorSchema: {} }) as ValidationData<unknown>,
  isValid: (schema, data) => meets(schema as object, data as Json | undefined),
  rawValidation: () => ({ errors: [] }),
};
