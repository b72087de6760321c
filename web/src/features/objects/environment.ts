/** What the editor of an object needs besides the object: schemas, plugins, candidates for references. */
import { useMemo } from 'react';
import { useQuery } from '@tanstack/react-query';
import { get } from '../../api/client';
import { keys } from '../../api/keys';
import { pluginInfos } from '../../forms/catalogue';
import type { ObjectList, PluginRow } from '../../api/types';
import { objectPath } from '../../app/url';
import type { Candidate, FormEnv, PluginFacts, PluginInfo } from '../../forms/env';
import { valueAt, type Json } from '../../forms/json';
import type { Kind } from './kinds/types';

/** Schemas do not change while an instance runs; a new build is another page load. */
const FOREVER = Number.POSITIVE_INFINITY;

export function usePluginInfos() {
  return useQuery({ queryKey: keys.pluginSchemas, queryFn: ({ signal }) => pluginInfos(signal), staleTime: FOREVER });
}

const EMPTY: ReadonlyMap<string, PluginFacts> = new Map();

export function usePluginFacts(): ReadonlyMap<string, PluginFacts> {
  const { data } = useQuery({ queryKey: keys.plugins, queryFn: ({ signal }) => get<{ list: PluginRow[] }>('weir/plugins', undefined, signal), staleTime: 60_000, retry: false });
  return useMemo(() => (data ? new Map(data.list.map(({ name, summary, group, scopes, phases, cost_ns }) => [name, { summary, group, scopes, phases, cost_ns }])) : EMPTY), [data]);
}

/** The schema of an object: of its kind, of the manager of a secret, or of the plugin of metadata. */
export function useSchema(kind: Kind, id: string, plugins: Readonly<Record<string, PluginInfo>> | undefined): { schema: Json | undefined; error: unknown } {
  const special = kind.kind === 'secrets' || kind.kind === 'plugin_metadata';
  const plain = useQuery({ queryKey: keys.schema(kind.singular), queryFn: ({ signal }) => get<Json>(`schema/${kind.singular}`, undefined, signal), staleTime: FOREVER, enabled: !special });
  // The schema endpoint gives one schema for all managers that takes any object; the document of the API has each.
  const managers = useQuery({ queryKey: ['schema', 'managers'], queryFn: async ({ signal }) => valueAt(await get<Json>('openapi.json', undefined, signal), '/components/schemas') ?? {}, staleTime: FOREVER, enabled: kind.kind === 'secrets' });
  if (kind.kind === 'plugin_metadata') return { schema: plugins ? plugins[id]?.metadata_schema ?? { type: 'object' } : undefined, error: null };
  if (kind.kind === 'secrets') {
    const name = { vault: 'SecretVault', aws: 'SecretAws', gcp: 'SecretGcp' }[id.split('/')[0] ?? ''];
    return { schema: managers.data === undefined ? undefined : valueAt(managers.data, `/${name ?? ''}`) ?? { type: 'object' }, error: managers.error };
  }
  return { schema: plain.data, error: plain.error };
}

async function candidates(kind: string, text: string): Promise<Candidate[]> {
  const word = text.replace(/["\s:]/g, ' ').trim();
  const { list } = await get<ObjectList>(`weir/objects/${kind}`, { q: word, limit: 50 });
  return list.map(({ id, name }) => ({ id, name }));
}

export function useFormEnvironment(kind: Kind, draft: string, readOnly: boolean, faults: FormEnv['faults'], plugins: Readonly<Record<string, PluginInfo>>, facts: ReadonlyMap<string, PluginFacts>): FormEnv {
  return useMemo(() => ({ kind: kind.kind, faults, base: '', draft, readOnly, plugins, facts, candidates, linkTo: objectPath }), [kind, draft, faults, readOnly, plugins, facts]);
}
