/** Endpoints of one upstream: state since when and why, share of the traffic, latency, last failure. */
import { useQuery } from '@tanstack/react-query';
import { ApiError, get } from '../../api/client';
import { keys } from '../../api/keys';
import { stateOf, type Upstream, type UpstreamNode } from '../../api/upstreams';
import { usePoll } from '../../app/events';
import { Go } from '../../ui/Go';
import { StateText } from '../../ui/Mark';
import { usePhone } from '../../ui/media';
import { Empty, Problem, Skeleton } from '../../ui/Problem';
import { Bar } from '../../ui/Spark';
import { Ago, FaultShare } from '../../ui/Values';
import { UNKNOWN, absolute, clock, count, duration, rate } from '../../ui/format';
import './upstreams.css';

export function useUpstream(id: string) {
  const poll = usePoll(5_000);
  return useQuery({
    queryKey: keys.upstreams(id),
    queryFn: ({ signal }) => get<Upstream>(`weir/upstreams/${id.includes('/') ? id : `upstreams/${encodeURIComponent(id)}`}`, undefined, signal),
    refetchInterval: poll,
  });
}

/** The share of each node in the requests of all, in percent. */
export function shares(nodes: UpstreamNode[]): number[] {
  const total = nodes.reduce((sum, node) => sum + (node.rps ?? 0), 0);
  return nodes.map((node) => (total === 0 ? 0 : ((node.rps ?? 0) / total) * 100));
}

function sinceText(since: string): string {
  const ms = Date.parse(since);
  if (Number.isNaN(ms)) return since;
  return Date.now() - ms < 86_400_000 ? clock(ms) : absolute(ms);
}

function stateWords(node: UpstreamNode, checked: boolean): { state: string; words: string; why: string | null } {
  const transition = node.ejected ?? node.unhealthy;
  const state = stateOf(node);
  if (state === 'down') {
    const words = `${node.state === 'ejected' ? 'ejected' : 'down'}${transition ? ` since ${sinceText(transition.since)}` : ''}`;
    return { state, words, why: transition?.why ?? null };
  }
  if (state === 'up') return { state, words: checked ? 'up' : 'up, not checked', why: null };
  return { state, words: node.state, why: null };
}

function LastFailure({ node }: { node: UpstreamNode }) {
  if (!node.last_failure) return <span className="quiet">{UNKNOWN}</span>;
  return <span className="endpoints-failure" title={node.last_failure.cause}><Go className="ellipsis" to="/traffic" search={{ q: `endpoint:${node.address}`, only: 'kept' }}>{node.last_failure.cause}</Go> <span className="quiet"><Ago ms={node.last_failure.at_ms} /> ago</span></span>;
}

export function Endpoints({ id }: { id: string }) {
  const phone = usePhone();
  const { data, error, refetch } = useUpstream(id);
  if (error && !data) {
    if (error instanceof ApiError && error.status === 404) return <Empty title="This upstream is not in force, so it has no endpoints. It comes into force when a route or service uses it." />;
    return <Problem error={error} retry={() => void refetch()} />;
  }
  if (!data) return <Skeleton lines={6} />;
  if (data.nodes.length === 0) return <Empty title={data.note ?? 'No address yet: the names of this upstream are not resolved.'} />;
  const parts = shares(data.nodes);
  const checked = data.checks !== undefined;
  return (
    <section className="card endpoints-card" aria-label={`Endpoints of ${id}`}>
      <p className="endpoints-note">
        {data.type}, {data.scheme}; {checked ? `checked by ${data.checks}` : 'no health checks configured'}
        {data.protection?.waiting ? `; ${count(data.protection.waiting)} requests wait` : ''}
        {data.note ? `; ${data.note}` : ''}
      </p>
      {phone ? <PhoneList nodes={data.nodes} parts={parts} checked={checked} /> : <Table nodes={data.nodes} parts={parts} checked={checked} />}
    </section>
  );
}

interface ListProps { nodes: UpstreamNode[]; parts: number[]; checked: boolean }

function Table({ nodes, parts, checked }: ListProps) {
  return (
    <div className="endpoints-scroll" tabIndex={0} role="region" aria-label="Table of endpoints">
      <table className="table endpoints-table">
        <thead>
          <tr>
            <th scope="col">Address</th><th scope="col">State</th><th scope="col" className="num">Weight</th><th scope="col" className="num">Req/s</th>
            <th scope="col">Share</th><th scope="col" className="num">In flight</th><th scope="col" className="num">EWMA</th><th scope="col" className="num">p99</th>
            <th scope="col" className="num">Idle</th><th scope="col" className="num">5xx</th><th scope="col">Last failure</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node, at) => {
            const said = stateWords(node, checked);
            return (
              <tr key={`${node.address}${at}`}>
                <th scope="row" className="mono">{node.address}{node.host && !node.address.startsWith(node.host) && <span className="quiet"> {node.host}</span>}</th>
                <td title={said.why ?? undefined}><StateText state={said.state} label={said.words} />{said.why && <div className="quiet ellipsis endpoints-why">{said.why}</div>}</td>
                <td className="num">{count(node.weight)}{node.priority !== 0 && <span className="quiet"> p{node.priority}</span>}</td>
                <td className="num">{rate(node.rps)}</td>
                <td><span className="share"><Bar share={parts[at] ?? 0} width={80} /> <span className="quiet">{Math.round(parts[at] ?? 0)} %</span></span></td>
                <td className="num">{count(node.in_flight)}</td>
                <td className="num">{node.ewma_ms == null ? UNKNOWN : duration(node.ewma_ms * 1000)}</td>
                <td className="num">{duration(node.p99_us)}</td>
                <td className="num">{count(node.idle)}</td>
                <td className="num"><FaultShare value={node.p5xx} /></td>
                <td><LastFailure node={node} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function PhoneList({ nodes, parts, checked }: ListProps) {
  return (
    <ul className="endpoints-phone">
      {nodes.map((node, at) => {
        const said = stateWords(node, checked);
        return (
          <li key={`${node.address}${at}`}>
            <span className="mono ellipsis">{node.address}</span>
            <span className="num">{rate(node.rps)} /s · {Math.round(parts[at] ?? 0)} %</span>
            <span className="ellipsis"><StateText state={said.state} label={said.words} />{said.why && <span className="quiet"> {said.why}</span>}</span>
            <span className="num"><FaultShare value={node.p5xx} /> · {duration(node.p99_us)}</span>
          </li>
        );
      })}
    </ul>
  );
}
