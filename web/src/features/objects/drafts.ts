/** Drafts of edited objects in the storage of the tab, without secrets, so that a reload or a login loses nothing. */
import { withoutSecrets } from '../../forms/secrets';
import { valueAt, type Json } from '../../forms/json';
import { withValue } from '../../forms/document';
import type { PluginInfo } from '../../forms/env';

export interface Draft {
  /** The stored form that was edited, masked. */
  base: Json;
  document: Json;
  index: number | null;
}

/** Longest draft that is kept, in characters; the storage of a tab has some megabytes. */
const MOST = 400_000;
const PREFIX = 'weir.draft.';

export function readDraft(key: string): Draft | null {
  try {
    const text = window.sessionStorage.getItem(PREFIX + key);
    return text === null ? null : (JSON.parse(text) as Draft);
  } catch {
    return null;
  }
}

export function writeDraft(key: string, kind: string, draft: Draft, plugins: Readonly<Record<string, PluginInfo>>): void {
  const kept: Draft = { ...draft, document: withoutSecrets(kind, draft.document, plugins) };
  const text = JSON.stringify(kept);
  try {
    if (text.length <= MOST) window.sessionStorage.setItem(PREFIX + key, text);
  } catch {
    // Without storage the draft lives as long as the page.
  }
}

export function dropDraft(key: string): void {
  try {
    window.sessionStorage.removeItem(PREFIX + key);
  } catch {
    // Nothing was kept.
  }
}

/** A draft with the masks of the stored secrets back where the draft lost a typed one. */
export function revive(draft: Draft, kept: ReadonlyMap<string, Json>): Json {
  let document = draft.document;
  for (const pointer of kept.keys()) {
    const parent = pointer.slice(0, pointer.lastIndexOf('/'));
    const stored = valueAt(draft.base, pointer);
    if (stored !== undefined && valueAt(document, pointer) === undefined && valueAt(document, parent) !== undefined) document = withValue(document, pointer, stored);
  }
  return document;
}
