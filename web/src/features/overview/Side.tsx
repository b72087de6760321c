/** Endpoints by upstream and the last changes. */
import { useQuery } from '@tanstack/react-query';
import { get } from '../../api/client';
import { keys } from '../../api/keys';
import type { Versions, VersionRow } from '../../api/types';
import type { Upstream, UpstreamNode, Upstreams } from '../../api/upstreams';
import { stateOf, upstreamId } from '../../api/upstreams';
import { usePoll } from '../../app/events';
import { Go } from '../../ui/Go';
import { Mark } from '../../ui/Mark';
import { Card } from '../../ui/Page';
import { Empty, Problem, Skeleton } from '../../ui/Problem';
import { Ago } from '../../ui/Values';
import { count } from '../../ui/format';

const SHOWN = 6;
/** Marks of one upstream that fit beside its name. */
const MARKS = 14;

function rank(upstream: Upstream): number {
  return upstream.nodes.some((node) => stateOf(node) === 'down') ? 0 : upstream.nodes.some((node) => stateOf(node) !== 'up') ? 1 : 2;
}

function summary(nodes: UpstreamNode[]): { text: string; level: string } {
  const down = nodes.filter((node) => stateOf(node) === 'down').length;
  if (down > 0) return { text: `${down} of ${nodes.length} down`, level: 'level-err' };
  const warming = nodes.filter((node) => stateOf(node) === 'warming').length;
  if (warming > 0) return { text: `${warming} warming up`, level: 'quiet' };
  const up = nodes.filter((node) => stateOf(node) === 'up').length;
  return up < nodes.length ? { text: `${nodes.length - up} unknown`, level: 'quiet' } : { text: `${up} up`, level: 'quiet' };
}

export function EndpointsCard() {
  const poll = usePoll(10_000);
  const { data, error, refetch } = useQuery({
    queryKey: keys.upstreams(),
    queryFn: ({ signal }) => get<Upstreams>('weir/upstreams', { limit: 200 }, signal),
    refetchInterval: poll,
  });
  const list = [...(data?.list ?? [])].sort((a, b) => rank(a) - rank(b)).slice(0, SHOWN);
  return (
    <Card
      title="Endpoints"
      right={<><span className="side-key"><Mark state="up" label="" /> up</span><span className="side-key"><Mark state="warming" label="" /> warming up</span><span className="side-key"><Mark state="down" label="" /> down</span></>}
    >
      {error && !data ? <Problem error={error} retry={() => void refetch()} /> : !data ? <Skeleton lines={4} /> : data.list.length === 0 ? <Empty title="No upstream is in force." /> : (
        <ul className="endpoints">
          {list.map((upstream) => {
            const { text, level } = summary(upstream.nodes);
            return (
              <li key={upstream.name}>
                <Go to={`/${upstreamId(upstream.name).path}`} search={{ tab: 'endpoints' }} className="ellipsis">{upstreamId(upstream.name).label}</Go>
                <span className="endpoints-marks" aria-hidden="true">
                  {upstream.nodes.slice(0, MARKS).map((node) => <Mark key={node.address} state={stateOf(node)} label="" />)}
                  {upstream.nodes.length > MARKS && <span className="quiet">+{upstream.nodes.length - MARKS}</span>}
                </span>
                <span className={level}>{text}</span>
              </li>
            );
          })}
          {data.total > list.length && <li><Go to="/upstreams">All {count(data.total)} upstreams</Go></li>}
        </ul>
      )}
    </Card>
  );
}

const SOURCES: Record<string, string> = { apply: 'applied a file', rollback: 'rolled back', admin: 'changed', configs: 'took over a file', expiry: 'let objects expire' };

function told(row: VersionRow): string {
  const verb = SOURCES[row.source] ?? row.source;
  const to = typeof row.to === 'number' ? ` to r${row.to}` : '';
  const objects = typeof row.objects === 'number' ? `${row.source === 'admin' ? ' ' : ': '}${count(row.objects)} ${row.objects === 1 ? 'object' : 'objects'}` : '';
  return `${verb}${to}${objects}`;
}

export function ChangesCard() {
  const { data, error, refetch } = useQuery({
    queryKey: keys.versions({ limit: 20 }),
    queryFn: ({ signal }) => get<Versions>('weir/versions', { limit: 20 }, signal),
  });
  return (
    <Card title="Changes" right={<Go to="/changes">All</Go>}>
      {error && !data ? <Problem error={error} retry={() => void refetch()} /> : !data ? <Skeleton lines={5} /> : data.versions.length === 0 ? <Empty title="Nothing was changed yet." /> : (
        <ul className="changes">
          {data.versions.slice(0, 8).map((row) => (
            <li key={row.version}>
              <Go to={`/changes/${row.version}`} className="mono">r{row.version}</Go>
              <span className="ellipsis"><b>{row.by ?? 'unnamed'}</b> {told(row)}</span>
              <span className="quiet"><Ago ms={row.at_ms} /></span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
