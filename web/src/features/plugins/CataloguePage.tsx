/** All plugins of this build by group, with their uses and their cost. */
import { useMemo } from 'react';
import { useQuery } from '@tanstack/react-query';
import { get } from '../../api/client';
import { keys } from '../../api/keys';
import type { PluginRow } from '../../api/types';
import { usePoll } from '../../app/events';
import { useSearch, useSetSearch } from '../../app/url';
import { Button, Chip } from '../../ui/Button';
import { Go } from '../../ui/Go';
import { Page } from '../../ui/Page';
import { Empty, Problem, Skeleton } from '../../ui/Problem';
import { QueryField } from '../../ui/QueryField';
import { count, nanos, percent, plainLine } from '../../ui/format';
import './plugins.css';

/** Figures that are timed while a reader asks: the question comes again before the server stops timing. */
const POLL_MS = 15_000;

export default function CataloguePage() {
  const params = useSearch();
  const setSearch = useSetSearch();
  const poll = usePoll(POLL_MS);
  const { data, error, refetch } = useQuery({ queryKey: keys.plugins, queryFn: ({ signal }) => get<{ list: PluginRow[] }>('weir/plugins', undefined, signal), refetchInterval: poll });
  const q = params.q ?? '';
  const group = params.group ?? '';
  const all = useMemo(() => data?.list ?? [], [data]);
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((plugin) => words.every((word) => `${plugin.name} ${plugin.summary} ${plugin.phases.join(' ')}`.toLowerCase().includes(word)));
  const groups = [...new Set(all.map((plugin) => plugin.group))].sort();
  const shown = found.filter((plugin) => group === '' || plugin.group === group).sort((a, b) => b.used_by - a.used_by || (a.name < b.name ? -1 : 1));
  return (
    <Page title="Plugins" note={data ? count(all.length) : undefined}>
      <QueryField value={q} onChange={(next, commit) => setSearch({ q: next }, commit)} fields={[]} placeholder="name or purpose" label="Filter plugins" />
      <div className="facets" role="group" aria-label="Groups" style={{ display: 'flex', gap: 6, overflowX: 'auto' }}>
        <Chip pressed={group === ''} count={count(found.length)} onClick={() => setSearch({ group: null })}>All</Chip>
        {groups.map((name) => <Chip key={name} pressed={group === name} count={count(found.filter((plugin) => plugin.group === name).length)} onClick={() => setSearch({ group: group === name ? null : name })}>{name}</Chip>)}
      </div>
      {error ? <Problem title="The plugins could not be loaded." error={error} retry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton lines={10} /> : null}
      {data ? (
        <section className="card" aria-label="Plugins">
          {shown.length === 0 ? <Empty title={`None of the ${all.length} plugins matches.`} action={<Button onClick={() => setSearch({ q: null, group: null })}>Clear the filter</Button>} /> : (
            <>
              <div className="plugin-row plugin-head" aria-hidden><span>Name</span><span>Phase</span><span className="plugin-summary">Purpose</span><span className="num">Uses</span><span className="num plugin-cost">Cost</span><span className="num plugin-live">CPU</span></div>
              <ul className="plugin-list">
                {shown.map((plugin) => (
                  <li key={plugin.name}>
                    <Go className="plugin-row" to={`/plugins/${encodeURIComponent(plugin.name)}`}>
                      <span className="strong">{plugin.name}</span>
                      <span className="dim plugin-phase">{plugin.phases[0] ?? ''} <span className="quiet">{plugin.priority}</span></span>
                      <span className="dim plugin-summary">{plainLine(plugin.summary)}</span>
                      <span className="num">{plugin.used_by === 0 ? <span className="quiet">0</span> : `${count(plugin.used_by)}`}<span className="sr"> uses</span></span>
                      <span className="num plugin-cost">{nanos(plugin.live?.p50_ns ?? plugin.cost_ns)}</span>
                      <span className="num plugin-live">{plugin.live ? percent(plugin.live.share, 1) : <span className="quiet">–</span>}</span>
                    </Go>
                  </li>
                ))}
              </ul>
            </>
          )}
        </section>
      ) : null}
    </Page>
  );
}
