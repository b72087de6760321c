/** The one document of an object page: loaded, edited, checked while typing, saved under the form it was read in. */
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { ApiError, get, request } from '../../api/client';
import { keys } from '../../api/keys';
import { fieldChanges, type FieldChange } from '../../forms/document';
import type { PluginInfo } from '../../forms/env';
import { equal, type Json, type JsonObject } from '../../forms/json';
import { authorHeaders, faultsOf, planSet, type SetFault } from '../../forms/plan';
import { mask, unknownSecrets, unmask } from '../../forms/secrets';
import { check, type Fault } from '../../forms/validator';
import { dropDraft, readDraft, revive, writeDraft } from './drafts';
import type { Kind } from './kinds/types';
import { adminPath, documentOf, load, setOf } from './sets';

/** The check begins this long after the last key. */
const PAUSE_MS = 300;

export interface Verdict {
  state: 'in_force' | 'last_good' | 'out' | 'unplaced';
  revision_in_force: number | null;
  revision_written: number;
  faults: Fault[];
  skipped_plugins: Fault[];
  warnings: Fault[];
}

export interface Conflict {
  theirs: Json;
  index: number;
  by: string | null;
  at: number | null;
}

interface Held {
  base: Json;
  kept: ReadonlyMap<string, Json>;
  index: number | null;
  document: Json;
}

export type SaveResult = { ok: true; revision: number | null; id: string } | { ok: false };

export interface Editor {
  ready: boolean;
  error: unknown;
  isNew: boolean;
  base: Json;
  document: Json;
  setDocument: (next: Json) => void;
  changes: FieldChange[];
  dirty: boolean;
  /** Faults at fields, from the server's check or, before any edit, from the verdict. */
  faults: Fault[];
  /** Faults of other objects that this change would cause. */
  otherFaults: SetFault[];
  checking: boolean;
  checkError: unknown;
  verdict: Verdict | undefined;
  index: number | null;
  restored: boolean;
  /** A form that was stored since this one was read. */
  newer: number | null;
  takeNewer: () => void;
  discard: () => void;
  save: (id: string) => Promise<SaveResult>;
  saving: boolean;
  saveError: unknown;
  conflict: Conflict | null;
  settle: (merged: Json) => Promise<void>;
  leaveConflict: () => void;
}

const NOTHING: JsonObject = {};

export function useEditor(kind: Kind, id: string | null, from: string | null, plugins: Readonly<Record<string, PluginInfo>> | undefined, schema: Json | undefined, draftKey: string, checkedAs: string | null): Editor {
  const client = useQueryClient();
  const isNew = id === null;
  const collection = kind.kind === 'credentials' ? 'consumers' : kind.kind;
  const source = id ?? from;
  const stored = useQuery({
    queryKey: keys.object(collection, source ?? ''),
    queryFn: ({ signal }) => load(collection, source ?? '', signal),
    enabled: source !== null,
    staleTime: 0,
  });
  const verdict = useQuery({
    queryKey: ['verdicts', kind.kind, id],
    queryFn: ({ signal }) => get<Verdict>(`weir/verdicts/${adminPath(kind.kind, id ?? '')}`, undefined, signal),
    enabled: !isNew && kind.kind !== 'credentials',
    retry: false,
  });
  const [held, setHeld] = useState<Held | null>(null);
  const [restored, setRestored] = useState(false);
  const [newer, setNewer] = useState<number | null>(null);
  const [conflict, setConflict] = useState<Conflict | null>(null);
  const [saving, setSaving] = useState(false);
  const [saveError, setSaveError] = useState<unknown>(null);

  const adopt = useCallback((value: JsonObject, index: number | null, known: Readonly<Record<string, PluginInfo>>): Held => {
    const { document, kept } = mask(kind.kind, documentOf(value, collection), known);
    return { base: document, kept, index, document };
  }, [kind, collection]);

  // The first answer fills the editor; a later one does so only while nothing is edited.
  const data = stored.data;
  useEffect(() => {
    if (!plugins || (source !== null && !data)) return;
    setHeld((old) => {
      if (old === null) {
        const draft = readDraft(draftKey);
        if (isNew) {
          const copy = data ? adopt(data.value, null, plugins).document : (kind.fresh as Json);
          setRestored(draft !== null);
          // A copy begins without the secrets of its model, because a key must not belong to two objects.
          return { base: NOTHING, kept: new Map(), index: null, document: draft ? draft.document : copyOf(copy) };
        }
        const fresh = adopt((data as { value: JsonObject }).value, data?.index ?? null, plugins);
        if (!draft || equal(draft.document, fresh.base)) return fresh;
        setRestored(true);
        return { ...fresh, base: draft.base, index: draft.index, document: revive(draft, fresh.kept) };
      }
      if (isNew || !data || data.index === old.index) return old;
      if (equal(old.document, old.base)) return adopt(data.value, data.index, plugins);
      setNewer(data.index);
      return old;
    });
  }, [data, plugins, isNew, source, adopt, kind, draftKey]);

  const document = held?.document ?? NOTHING;
  const base = held?.base ?? NOTHING;
  const kept = held?.kept;
  const changes = useMemo(() => (held ? fieldChanges(isNew ? undefined : base, document) : []), [held, base, document, isNew]);
  const dirty = held !== null && (isNew || !equal(base, document));

  const setDocument = useCallback((next: Json) => setHeld((old) => (old ? { ...old, document: next } : old)), []);

  useEffect(() => {
    if (!held || !plugins) return undefined;
    const timer = window.setTimeout(() => {
      if (equal(held.base, held.document) || (isNew && equal(held.document, kind.fresh as Json))) dropDraft(draftKey);
      else writeDraft(draftKey, kind.kind, { base: held.base, document: held.document, index: held.index }, plugins);
    }, 400);
    return () => window.clearTimeout(timer);
  }, [held, plugins, isNew, kind, draftKey]);

  const checked = useCheck(kind, checkedAs, held && dirty ? unmask(document, held.kept) : null, schema);
  const unknown = useMemo(() => (kept ? unknownSecrets(document, kept).map((pointer) => ({ pointer, reason: 'stands for a stored secret, but none is stored at this place; type it again' })) : []), [document, kept]);
  const faults = useMemo(() => {
    if (!dirty) return verdict.data ? [...verdict.data.faults, ...verdict.data.skipped_plugins] : [];
    return [...unknown, ...checked.faults];
  }, [dirty, verdict.data, checked.faults, unknown]);

  const refresh = useCallback(async () => {
    await client.invalidateQueries({ predicate: ({ queryKey }) => ['object', 'rows', 'objects', 'verdicts', 'versions', 'usage', 'status', 'certificates'].includes(String(queryKey[0])) });
  }, [client]);

  const save = useCallback(async (target: string): Promise<SaveResult> => {
    if (!held || !plugins) return { ok: false };
    setSaving(true);
    setSaveError(null);
    try {
      const body = unmask(held.document, held.kept);
      const headers: Record<string, string> = { ...authorHeaders() };
      if (isNew && target !== '') headers['If-None-Match'] = '*';
      if (!isNew && held.index !== null) headers['If-Match'] = `"${held.index}"`;
      const answer = isNew && target === ''
        ? await request<{ key: string; value: JsonObject }>('POST', collection, { body, headers, exact: true })
        : await request<{ key: string; value: JsonObject }>('PUT', adminPath(collection, target), { body, headers, exact: true });
      dropDraft(draftKey);
      const made = target !== '' ? target : String(answer.data.value.id ?? answer.data.key.split('/').at(-1));
      // The written document is the new base at once; the answer of the next read brings its index.
      const index = Number((answer.etag ?? '').replace(/\D/g, '')) || answer.revision;
      const next = mask(kind.kind, documentOf(answer.data.value, collection), plugins);
      setHeld({ base: next.document, document: next.document, kept: next.kept, index });
      setRestored(false);
      setNewer(null);
      await refresh();
      return { ok: true, revision: answer.revision, id: made };
    } catch (error) {
      if (error instanceof ApiError && error.status === 412 && !isNew) {
        const { current, by, at_ms: at } = error.body as { current?: JsonObject | null; by?: string | null; at_ms?: number | null };
        // The form in the answer hides secrets by the server's list, so the stored form is read and masked as the page does it.
        const now = current ? await load(collection, target).catch(() => null) : null;
        if (now) setConflict({ theirs: mask(kind.kind, documentOf(now.value, collection), plugins).document, index: now.index, by: by ?? null, at: at ?? null });
        else setSaveError(new ApiError(412, { error_msg: 'The object was deleted in the meantime. Its document is still here; "Duplicate" makes a new object of it.' }));
      } else setSaveError(error);
      return { ok: false };
    } finally {
      setSaving(false);
    }
  }, [held, plugins, isNew, kind, collection, draftKey, refresh]);

  const settle = useCallback(async (merged: Json) => {
    if (!conflict || !plugins || id === null) return;
    // The answer of the conflict hides secrets, so the stored form is read again.
    const now = await load(collection, id);
    const fresh = adopt(now.value, now.index, plugins);
    setHeld({ ...fresh, document: merged });
    setNewer(null);
    setConflict(null);
  }, [conflict, plugins, id, collection, adopt]);

  return {
    ready: held !== null && schema !== undefined,
    error: stored.error,
    isNew, base, document, setDocument, changes, dirty, faults,
    otherFaults: dirty ? checked.others : [],
    checking: checked.busy, checkError: dirty ? checked.error : null,
    verdict: verdict.data,
    index: held?.index ?? null, restored, newer,
    takeNewer: () => {
      if (!data || !plugins || !held) return;
      const fresh = adopt(data.value, data.index, plugins);
      setConflict({ theirs: fresh.base, index: data.index, by: null, at: data.updated });
    },
    discard: () => {
      dropDraft(draftKey);
      setRestored(false);
      setNewer(null);
      setSaveError(null);
      if (isNew) setHeld((old) => (old ? { ...old, document: kind.fresh as Json } : old));
      else if (data && plugins) setHeld(adopt(data.value, data.index, plugins));
    },
    save, saving, saveError, conflict, settle,
    leaveConflict: () => setConflict(null),
  };
}

/** A copy of an object without what must be unique: masked secrets. */
function copyOf(document: Json): Json {
  const strip = (value: Json): Json => {
    if (Array.isArray(value)) return value.map(strip);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).filter(([, item]) => item !== '(hidden)').map(([key, item]) => [key, strip(item)]));
  };
  return strip(document);
}

/** The check of a document by the server's plan, and by its schema when the server cannot be asked. */
function useCheck(kind: Kind, id: string | null, document: Json | null, schema: Json | undefined) {
  const [state, setState] = useState<{ faults: Fault[]; others: SetFault[]; busy: boolean; error: unknown }>({ faults: [], others: [], busy: false, error: null });
  const text = document === null ? null : JSON.stringify(document);
  const schemaNow = useRef(schema);
  schemaNow.current = schema;
  useEffect(() => {
    if (text === null) {
      setState({ faults: [], others: [], busy: false, error: null });
      return undefined;
    }
    const abort = new AbortController();
    setState((old) => ({ ...old, busy: true }));
    const timer = window.setTimeout(async () => {
      const collection = kind.kind === 'credentials' ? 'consumers' : kind.kind;
      const value = JSON.parse(text) as Json;
      const target = id ?? String((value as JsonObject).username || 'new');
      const key = `${collection}/${target}`;
      try {
        await planSet(setOf(collection, target, value), abort.signal);
        setState({ faults: [], others: [], busy: false, error: null });
      } catch (error) {
        if (abort.signal.aborted) return;
        const found = faultsOf(error);
        if (found.length === 0) {
          setState({ faults: check((schemaNow.current ?? {}) as object, value), others: [], busy: false, error });
          return;
        }
        const own = found.filter((fault) => fault.key === key || fault.key == null);
        setState({ faults: own.map((fault) => ({ pointer: fault.pointer ?? '', reason: fault.reason })), others: found.filter((fault) => !own.includes(fault)), busy: false, error: null });
      }
    }, PAUSE_MS);
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [text, kind, id]);
  return state;
}
