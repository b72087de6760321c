/** Who makes up the traffic: routes, consumers, endpoints or causes, by their share. */
import type { TopRow } from '../../api/types';
import { upstreamId } from '../../api/upstreams';
import { objectPath, useSearch, useSetSearch } from '../../app/url';
import { Tabs } from '../../ui/Button';
import { Go } from '../../ui/Go';
import { Empty, Problem, Skeleton } from '../../ui/Problem';
import { Bar } from '../../ui/Spark';
import { FaultShare } from '../../ui/Values';
import { duration, rate } from '../../ui/format';
import { useTop, type TopBy } from './data';

const TABS: { value: TopBy; label: string }[] = [
  { value: 'routes', label: 'Top routes' }, { value: 'consumers', label: 'Consumers' },
  { value: 'endpoints', label: 'Endpoints' }, { value: 'causes', label: 'Causes' },
];
const FIRST: Record<TopBy, string> = { routes: 'Route', consumers: 'Consumer', endpoints: 'Endpoint', causes: 'Cause' };

function shareText(share: number): string {
  return share >= 1 || share === 0 ? `${Math.round(share)} %` : '< 1 %';
}

function Name({ by, row }: { by: TopBy; row: TopRow }) {
  if (by === 'causes') return <Go to="/traffic" search={{ q: `cause:${row.id}` }}>{row.id}</Go>;
  if (by === 'endpoints') return <Go to={row.upstream ? `/${upstreamId(row.upstream).path}` : '/upstreams'} search={{ tab: 'endpoints' }} className="mono">{row.id}</Go>;
  return <Go to={objectPath(by, row.id)}>{row.name ?? row.id}</Go>;
}

export function TopTable({ paused }: { paused: boolean }) {
  const search = useSearch();
  const set = useSetSearch();
  const by = TABS.find((tab) => tab.value === search.top)?.value ?? 'routes';
  const { data, error, refetch } = useTop(by, paused);
  const hasMatch = by === 'routes' || by === 'endpoints';
  return (
    <section className="card top-card" aria-label="Top of the last minute">
      <div className="top-tabs"><Tabs label="Top of the last minute" value={by} options={TABS} onChange={(value) => set({ top: value === 'routes' ? null : value })} panel="top-panel" /></div>
      <div id="top-panel" role="tabpanel" aria-label={FIRST[by]} className="top-scroll" tabIndex={0}>
        {error && !data ? <Problem error={error} retry={() => void refetch()} /> : !data ? <Skeleton lines={8} /> : data.list.length === 0 ? (
          <Empty title={by === 'causes' ? 'No request failed in the last minute.' : 'No request in the last minute.'} />
        ) : (
          <table className="table top-table">
            <thead>
              <tr>
                <th scope="col">{FIRST[by]}</th>
                {hasMatch && <th scope="col" className="wide">{by === 'routes' ? 'Match' : 'Upstream'}</th>}
                <th scope="col" className="num">Req/s</th>
                <th scope="col" className="top-share">Share</th>
                {by !== 'causes' && <th scope="col" className="num">5xx</th>}
                {by !== 'causes' && <th scope="col" className="num wide">p99</th>}
              </tr>
            </thead>
            <tbody>
              {data.list.map((row) => (
                <tr key={`${row.id} ${row.upstream ?? ''}`} data-link="">
                  <th scope="row"><Name by={by} row={row} />{hasMatch && row.match && <span className="top-under mono">{row.match}</span>}</th>
                  {hasMatch && <td className="wide mono ellipsis">{by === 'routes' ? row.match : row.upstream ? upstreamId(row.upstream).label : ''}</td>}
                  <td className="num">{rate(row.rps)}</td>
                  <td><span className="share"><Bar share={row.share} width={64} /> <span className="quiet">{shareText(row.share)}</span></span></td>
                  {by !== 'causes' && <td className="num"><FaultShare value={row.p5xx} /></td>}
                  {by !== 'causes' && <td className="num wide">{duration(row.p99_us)}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
    </section>
  );
}
