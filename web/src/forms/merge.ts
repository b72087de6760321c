/** The three-way merge of a conflict: the base, the document stored meanwhile, and the document being edited. */
import { applyPatch, fieldChanges, withValue, type FieldChange, type Operation } from './document';
import { equal, escapeToken, isObject, isWithin, valueAt, type Json } from './json';

/** A place that both sides changed to different values. */
export interface Clash {
  pointer: string;
  base?: Json;
  theirs?: Json;
  mine?: Json;
}

/** What a merge found: the document with every one-sided change, and the places to choose at. */
export interface Merge {
  /** Theirs with the changes that only this side made. At the clashes it holds theirs. */
  merged: Json;
  clashes: Clash[];
  /** The changes that only this side made. */
  onlyMine: FieldChange[];
  /** The changes that only the other side made. */
  onlyTheirs: FieldChange[];
}

/** The steps from `before` to `after` with every list as one value, because indexes of two edits do not match. */
function steps(before: Json, after: Json, pointer = ''): Operation[] {
  if (equal(before, after)) return [];
  if (!isObject(before) || !isObject(after)) return [{ op: 'replace', path: pointer, value: after }];
  const found: Operation[] = [];
  for (const key of Object.keys(before)) {
    if (!Object.hasOwn(after, key)) found.push({ op: 'remove', path: `${pointer}/${escapeToken(key)}` });
  }
  for (const [key, value] of Object.entries(after)) {
    const path = `${pointer}/${escapeToken(key)}`;
    if (!Object.hasOwn(before, key)) found.push({ op: 'add', path, value });
    else found.push(...steps(before[key] as Json, value, path));
  }
  return found;
}

/** Merges two edits of `base`. A change inside an object that the other side removed is a clash at that object. */
export function merge(base: Json, theirs: Json, mine: Json): Merge {
  const [left, right] = [steps(base, theirs), steps(base, mine)];
  const overlaps = (a: Operation, b: Operation) => isWithin(a.path, b.path) || isWithin(b.path, a.path);
  const places = new Set<string>();
  for (const ours of right) {
    for (const other of left) {
      if (!overlaps(ours, other)) continue;
      const place = ours.path.length < other.path.length ? ours.path : other.path;
      if (!equal(valueAt(theirs, place), valueAt(mine, place))) places.add(place);
    }
  }
  const pointers = [...places].filter((place) => ![...places].some((up) => up !== place && isWithin(place, up)));
  const clashing = (step: Operation) => pointers.some((place) => isWithin(step.path, place));
  const same = (step: Operation, others: Operation[]) => others.some((other) => overlaps(step, other));
  const mineAlone = right.filter((step) => !clashing(step) && !same(step, left));
  const theirsAlone = left.filter((step) => !clashing(step) && !same(step, right));
  const describe = (step: Operation, after: Json): FieldChange => {
    const change: FieldChange = { pointer: step.path };
    const [old, fresh] = [valueAt(base, step.path), valueAt(after, step.path)];
    if (old !== undefined) change.before = old;
    if (fresh !== undefined) change.after = fresh;
    return change;
  };
  return {
    merged: applyPatch(theirs, mineAlone),
    clashes: pointers.sort().map((pointer) => clashAt(pointer, base, theirs, mine)),
    onlyMine: mineAlone.map((step) => describe(step, mine)),
    onlyTheirs: theirsAlone.map((step) => describe(step, theirs)),
  };
}

function clashAt(pointer: string, base: Json, theirs: Json, mine: Json): Clash {
  const clash: Clash = { pointer };
  const [a, b, c] = [valueAt(base, pointer), valueAt(theirs, pointer), valueAt(mine, pointer)];
  if (a !== undefined) clash.base = a;
  if (b !== undefined) clash.theirs = b;
  if (c !== undefined) clash.mine = c;
  return clash;
}

/** The merged document after a side was chosen for each clash. */
export function resolve(found: Merge, choices: Readonly<Record<string, 'theirs' | 'mine'>>): Json {
  return found.clashes.reduce<Json>((document, clash) => {
    return choices[clash.pointer] === 'mine' ? withValue(document, clash.pointer, clash.mine) : document;
  }, found.merged);
}

/** Whether a choice is made for every clash. */
export function isResolved(found: Merge, choices: Readonly<Record<string, 'theirs' | 'mine'>>): boolean {
  return found.clashes.every((clash) => choices[clash.pointer] !== undefined);
}

/** The number of fields that differ, for the tab and the save bar. */
export function countChanges(before: Json | undefined, after: Json | undefined): number {
  return fieldChanges(before, after).length;
}
