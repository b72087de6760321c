/** The neighbourhood of one object: routes, services, upstreams, endpoints; line width is the rate, dashed red is failing. */
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react';
import { useQuery } from '@tanstack/react-query';
import { get } from '../../api/client';
import { keys } from '../../api/keys';
import type { Topology as Data, TopologyNode } from '../../api/types';
import { upstreamId } from '../../api/upstreams';
import { usePoll } from '../../app/events';
import { objectPath, useSearch, useSetSearch } from '../../app/url';
import { Button } from '../../ui/Button';
import { Go } from '../../ui/Go';
import { Mark, markOf } from '../../ui/Mark';
import { usePhone } from '../../ui/media';
import { Empty, Problem, Skeleton } from '../../ui/Problem';
import { count, percent, rate } from '../../ui/format';
import { BOX, layout, neighbour, type Placed } from './layout';
import './upstreams.css';

const LIMIT = 40;
const TITLES: Record<string, string> = { routes: 'Routes', services: 'Services', upstreams: 'Upstreams', endpoints: 'Endpoints' };
/** Characters of a name that fit into a box. */
const NAME = 21;

function nameOf(node: TopologyNode): string {
  // The name of an endpoint is its host, without the port.
  return node.kind === 'endpoints' ? node.id : (node.name ?? node.id);
}
function said(node: TopologyNode): string {
  return `${nameOf(node)} ${rate(node.rps)} a second, ${node.state.replace('_', ' ')}, ${percent(node.p5xx)} 5xx`;
}

/** Whether an upstream is inside of a route or service; its id is then the key of that object. */
function isInside(node: TopologyNode): boolean {
  return node.kind === 'upstreams' && node.id.includes('/');
}
function pathOf(node: TopologyNode): string {
  return node.kind === 'upstreams' ? `/${upstreamId(node.id).path}` : objectPath(node.kind, node.id);
}

/** `focus` is `KIND/ID`; Enter on another object moves the focus, which the address keeps. */
export function Topology({ focus: own }: { focus: string }) {
  const search = useSearch();
  const set = useSetSearch();
  const phone = usePhone();
  const focus = search.focus ?? own;
  const poll = usePoll(5_000);
  const { data, error, refetch } = useQuery({
    queryKey: keys.topology(focus, LIMIT),
    queryFn: ({ signal }) => get<Data>('weir/topology', { focus, limit: LIMIT }, signal),
    refetchInterval: poll,
    placeholderData: (old) => old,
  });
  const refocus = (node: TopologyNode) => {
    if (node.kind === 'endpoints' || isInside(node)) return;
    const next = `${node.kind}/${node.id}`;
    set({ focus: next === own ? null : next }, true);
  };
  if (error && !data) return <Problem error={error} retry={() => void refetch()} />;
  if (!data) return <Skeleton height={320} />;
  if (data.nodes.length === 0) return <Empty title="Nothing uses this object, and it uses nothing that is in force." />;
  const folded = Object.entries(data.folded).filter(([, hidden]) => hidden > 0);
  return (
    <section className="card topology" aria-label={`Topology of ${focus}`}>
      <div className="topology-head">
        <span>{focus}</span>
        {focus !== own && <Button look="bare" onClick={() => set({ focus: null }, true)}>Back to {own}</Button>}
        <span className="quiet">{folded.map(([kind, hidden]) => `+ ${count(hidden)} ${kind}`).join(', ')}</span>
      </div>
      {phone ? <NestedList data={data} /> : <Graph data={data} focus={focus} onEnter={refocus} />}
      {!phone && <div className="sr"><NestedList data={data} plain /></div>}
    </section>
  );
}

function Graph({ data, focus, onEnter }: { data: Data; focus: string; onEnter: (node: TopologyNode) => void }) {
  const { boxes, lines, width, height, columns } = useMemo(() => layout(data), [data]);
  const [chosen, setChosen] = useState<number | null>(null);
  const svg = useRef<SVGSVGElement>(null);
  const start = boxes.find((box) => `${box.node.kind}/${box.node.id}` === focus) ?? boxes[0]!;
  const current = boxes.find((box) => box.index === chosen) ?? start;
  useEffect(() => setChosen(null), [focus]);
  const onKey = (event: KeyboardEvent, box: Placed) => {
    if (event.key === 'Enter') {
      event.preventDefault();
      onEnter(box.node);
      return;
    }
    const next = neighbour(boxes, box, event.key);
    if (!next) return;
    event.preventDefault();
    setChosen(next.index);
    svg.current?.querySelector<SVGGElement>(`[data-index="${next.index}"]`)?.focus();
  };
  const near = new Set(lines.filter((line) => line.from === current || line.to === current).flatMap((line) => [line.from.index, line.to.index]));
  return (
    <div className="topology-scroll">
      <svg ref={svg} className="topology-svg" width={width + 24} height={height + 30} viewBox={`-12 -26 ${width + 24} ${height + 30}`} role="group" aria-label="Graph; arrow keys walk, Enter focuses">
        {columns.map(({ kind, x }) => <text key={kind} className="topology-column" x={x} y="-10">{TITLES[kind]}</text>)}
        {lines.map(({ from, to, width: stroke, failing, rps }) => {
          const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2];
          const middle = (x1 + x2) / 2;
          return (
            <path
              key={`${from.index} ${to.index}`} className="topology-line" data-failing={failing} data-near={from === current || to === current}
              d={`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`} strokeWidth={failing ? Math.max(1.5, Math.min(stroke, 3)) : stroke}
            >
              <title>{`${nameOf(from.node)} to ${nameOf(to.node)}: ${rate(rps)} a second`}</title>
            </path>
          );
        })}
        {boxes.map((box) => (
          <g
            key={box.index} data-index={box.index} className={`topology-box topology-${markOf(box.node.state)}`} data-focus={`${box.node.kind}/${box.node.id}` === focus}
            data-near={near.has(box.index)} transform={`translate(${box.x} ${box.y})`} tabIndex={box === current ? 0 : -1} role="img" aria-label={said(box.node)}
            onFocus={() => setChosen(box.index)} onKeyDown={(event) => onKey(event, box)} onClick={() => setChosen(box.index)} onDoubleClick={() => onEnter(box.node)}
          >
            <title>{said(box.node)}</title>
            <rect width={BOX.width} height={BOX.height} rx="6" />
            <g transform="translate(10 12)"><Mark state={box.node.state} label="" /></g>
            <text aria-hidden="true" x="28" y="21" className={box.node.kind === 'endpoints' ? 'topology-mono' : undefined}>{nameOf(box.node).length > NAME ? `${nameOf(box.node).slice(0, NAME - 1)}…` : nameOf(box.node)}</text>
            <text aria-hidden="true" x={BOX.width - 10} y="21" className="topology-rate" textAnchor="end">{box.node.rps === null ? '' : rate(box.node.rps)}</text>
          </g>
        ))}
      </svg>
      <Details node={current.node} focus={focus} onEnter={onEnter} />
    </div>
  );
}

function Details({ node, focus, onEnter }: { node: TopologyNode; focus: string; onEnter: (node: TopologyNode) => void }) {
  const key = `${node.kind}/${node.id}`;
  return (
    <p className="topology-details" aria-live="polite">
      <Mark state={node.state} /> <b>{nameOf(node)}</b> <span className="quiet">{rate(node.rps)} /s, {percent(node.p5xx)} 5xx</span>
      {node.kind !== 'endpoints' && <Go to={pathOf(node)}>Open</Go>}
      {node.kind !== 'endpoints' && !isInside(node) && key !== focus && <button type="button" onClick={() => onEnter(node)}>Focus</button>}
      <Go to="/traffic" search={{ q: `${node.kind === 'endpoints' ? 'endpoint' : node.kind.slice(0, -1)}:${node.id}` }}>Traffic</Go>
    </p>
  );
}

/** The same content as a list: each object with what it leads to. */
function NestedList({ data, plain = false }: { data: Data; plain?: boolean }) {
  const name = (node: TopologyNode) =>
    node.kind === 'endpoints' ? <span className="mono">{node.id}</span> : plain ? nameOf(node) : <Go to={pathOf(node)}>{nameOf(node)}</Go>;
  const targets = new Set(data.edges.map((edge) => edge.to));
  const roots = data.nodes.map((_, index) => index).filter((index) => !targets.has(index));
  const item = (index: number, depth: number) => {
    const node = data.nodes[index];
    if (!node || depth > 4) return null;
    const next = data.edges.filter((edge) => edge.from === index);
    return (
      <li key={index}>
        <span className="topology-item">
          <Mark state={node.state} /> {name(node)}
          <span className="quiet">{rate(node.rps)} /s{(node.p5xx ?? 0) >= 0.1 ? `, ${percent(node.p5xx)} 5xx` : ''}</span>
        </span>
        {next.length > 0 && <ul>{next.map((edge) => item(edge.to, depth + 1))}</ul>}
      </li>
    );
  };
  // Many routes that lead to one upstream are listed before it, so that its endpoints are read once.
  const shared = roots.length > 1;
  if (!shared) return <ul className="topology-list">{roots.map((index) => item(index, 0))}</ul>;
  const kinds = ['routes', 'services', 'upstreams', 'endpoints'] as const;
  return (
    <ul className="topology-list">
      {kinds.filter((kind) => data.nodes.some((node) => node.kind === kind)).map((kind) => (
        <li key={kind}>
          <span className="topology-item strong">{TITLES[kind]}{(data.folded[kind] ?? 0) > 0 && <span className="quiet">+ {count(data.folded[kind])}</span>}</span>
          <ul>
            {data.nodes.map((node, index) => ({ node, index })).filter(({ node }) => node.kind === kind).map(({ node, index }) => (
              <li key={index}>
                <span className="topology-item">
                  <Mark state={node.state} /> {name(node)}
                  <span className="quiet">{rate(node.rps)} /s{(node.p5xx ?? 0) >= 0.1 ? `, ${percent(node.p5xx)} 5xx` : ''}</span>
                </span>
              </li>
            ))}
          </ul>
        </li>
      ))}
    </ul>
  );
}
