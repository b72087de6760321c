/** One revision: its changes, what it did to failures, and the way back. */
import { useState } from 'react';
import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { get, getExact, request } from '../../api/client';
import { keys } from '../../api/keys';
import type { Overview, VersionRow } from '../../api/types';
import { useWritable } from '../../app/session';
import { go, objectPath } from '../../app/url';
import { ConfirmPlan } from '../../forms/ConfirmPlan';
import { PlanView } from '../../forms/PlanView';
import { authorHeaders, planBetween, splitKey, type Applied, type ObjectChange } from '../../forms/plan';
import { Button } from '../../ui/Button';
import { Go } from '../../ui/Go';
import { Problem, Skeleton } from '../../ui/Problem';
import { Ago } from '../../ui/Values';
import { count, percent } from '../../ui/format';
import { sharesAround } from './query';

interface Details extends VersionRow {
  changes: ObjectChange[];
  total?: number;
  offset?: number;
}

/** Changes of one page of a revision. */
const PAGE = 200;

export function whatOf(row: VersionRow): string {
  const objects = row.objects === undefined ? '' : row.objects === 1 ? '1 object' : `${count(row.objects)} objects`;
  const word = { admin: 'changed', apply: 'applied', rollback: 'rolled back', configs: 'replaced all', expiry: 'expired' }[row.source] ?? row.source;
  const to = typeof row.to === 'number' ? ` to r${row.to}` : '';
  return `${word}${to}${objects ? `, ${objects}` : ''}`;
}

export function Revision({ version, current }: { version: number; current: number | undefined }) {
  const writable = useWritable();
  const client = useQueryClient();
  const [rollback, setRollback] = useState<number | null>(null);
  const [done, setDone] = useState<string | null>(null);
  const { data, error, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: [...keys.version(version), 'pages'],
    queryFn: ({ pageParam, signal }) => getExact<Details>(`weir/versions/${version}`, { offset: pageParam, limit: PAGE }, signal),
    initialPageParam: 0,
    getNextPageParam: (last, pages) => {
      const seen = pages.reduce((sum, page) => sum + page.changes.length, 0);
      return last.total !== undefined && seen < last.total ? seen : undefined;
    },
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  const overview = useQuery({ queryKey: keys.overview(60), queryFn: ({ signal }) => get<Overview>('weir/overview', { minutes: 60 }, signal), retry: false, staleTime: 10_000 });
  if (error) return <Problem title={`Revision r${version} could not be loaded.`} error={error} />;
  const first = data?.pages[0];
  if (!first) return <section className="card changes-detail"><Skeleton lines={4} /></section>;
  const changes = data.pages.flatMap((page) => page.changes);
  const series = overview.data?.series;
  const total = series ? series.req_2xx.map((value, index) => (value ?? 0) + (series.req_3xx[index] ?? 0) + (series.req_4xx[index] ?? 0) + (series.req_5xx[index] ?? 0)) : [];
  const shares = overview.data && series ? sharesAround(first.at_ms, overview.data.end_ms, overview.data.step_ms, total, series.req_5xx) : null;
  const worse = shares !== null && shares.after >= Math.max(0.1, shares.before * 2);
  const places = changes.filter((change) => change.action !== 'delete').slice(0, 6);
  return (
    <section className="card changes-detail" aria-label={`Revision r${version}`}>
      <div className="card-head"><h2>r{version} <span className="dim">by {first.by ?? 'an unnamed author'}, {whatOf(first)}</span></h2><div className="card-right"><span><Ago ms={first.at_ms} /> ago</span></div></div>
      <div className="changes-body">
        {done ? <p className="state-ok" role="status">{done}</p> : null}
        {shares ? <p className={worse ? 'level-err' : 'dim'}>5xx {percent(shares.before)} → {percent(shares.after)} in the {shares.minutes} min after r{version}{worse ? ' ▲' : ''}</p> : null}
        <PlanView plan={{ objects: changes }} />
        {hasNextPage ? <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>Show more of {first.total}</Button> : null}
        <div className="changes-tools">
          {places.map((change) => {
            const { kind, id } = splitKey(change.key);
            return <Go key={change.key} className="btn btn-plain" to={objectPath(kind, id)}>Open {id}</Go>;
          })}
        </div>
        <div className="changes-tools">
          {writable && first.parent ? <Button onClick={() => setRollback(first.parent)}>Undo: back to r{first.parent}…</Button> : null}
          {writable && current !== undefined && version !== current ? <Button onClick={() => setRollback(version)}>Roll back to r{version}…</Button> : null}
          {current !== undefined && version !== current ? <Go className="btn btn-plain" to="/changes" search={{ compare: `${version}..${current}` }}>Compare with r{current}</Go> : null}
        </div>
      </div>
      {rollback !== null ? (
        <ConfirmPlan title={`Roll back to r${rollback}`} word="Roll back" onClose={() => setRollback(null)}
          plan={() => planBetween({ to: rollback })}
          apply={async (plan) => (await request<Applied>('POST', 'weir/rollback', { query: { to: rollback, expect: plan.revision }, headers: authorHeaders(), exact: true })).data}
          onDone={(applied) => {
            setRollback(null);
            setDone(`Rolled back as r${applied.revision}; the revision to return to is r${applied.before}.`);
            void client.invalidateQueries();
            go(`/changes/${applied.revision}`);
          }} />
      ) : null}
    </section>
  );
}
