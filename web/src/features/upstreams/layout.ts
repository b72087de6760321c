/** Places of a topology: four columns from routes to endpoints, each ordered so that edges cross little. */
import type { Topology, TopologyNode } from '../../api/types';

export const COLUMNS = ['routes', 'services', 'upstreams', 'endpoints'] as const;
export const BOX = { width: 190, height: 34, gap: 10, column: 270 };

export interface Placed { node: TopologyNode; index: number; column: number; x: number; y: number }
export interface Line { from: Placed; to: Placed; rps: number | null; failing: boolean; width: number }
export interface Layout { boxes: Placed[]; lines: Line[]; width: number; height: number; columns: { kind: string; x: number }[] }

const MIN_LINE = 1;
const MAX_LINE = 9;

export function isFailing(node: TopologyNode): boolean {
  return node.state === 'down' || node.state === 'out' || (node.p5xx ?? 0) >= 1;
}

/** A line is failing when its end is down, or when the requests that come over it fail. */
function isLineFailing(from: TopologyNode, to: TopologyNode): boolean {
  if (to.state === 'down' || to.state === 'out') return true;
  return to.kind === 'endpoints' ? isFailing(to) : isFailing(from);
}

export function layout(topology: Topology): Layout {
  const used = COLUMNS.filter((kind) => topology.nodes.some((node) => node.kind === kind));
  const columns = used.map((kind) => topology.nodes.map((node, index) => ({ node, index })).filter(({ node }) => node.kind === kind));
  const neighbours = new Map<number, number[]>();
  for (const { from, to } of topology.edges) {
    neighbours.set(from, [...(neighbours.get(from) ?? []), to]);
    neighbours.set(to, [...(neighbours.get(to) ?? []), from]);
  }
  const rank = new Map<number, number>();
  const place = (column: { index: number }[]) => column.forEach(({ index }, at) => rank.set(index, at - column.length / 2));
  for (const column of columns) {
    column.sort((a, b) => (b.node.rps ?? 0) - (a.node.rps ?? 0) || a.node.id.localeCompare(b.node.id));
    place(column);
  }
  // Two sweeps of the mean place of the neighbours settle so few nodes.
  for (let sweep = 0; sweep < 2; sweep += 1) {
    for (const column of sweep % 2 === 0 ? columns : [...columns].reverse()) {
      const mean = (index: number) => {
        const near = (neighbours.get(index) ?? []).map((each) => rank.get(each) ?? 0);
        return near.length === 0 ? (rank.get(index) ?? 0) : near.reduce((sum, value) => sum + value, 0) / near.length;
      };
      const means = new Map(column.map(({ index }) => [index, mean(index)]));
      column.sort((a, b) => means.get(a.index)! - means.get(b.index)!);
      place(column);
    }
  }
  const tallest = Math.max(1, ...columns.map((column) => column.length));
  const height = tallest * (BOX.height + BOX.gap) + BOX.gap;
  const boxes: Placed[] = [];
  columns.forEach((column, at) => {
    const taken = column.length * (BOX.height + BOX.gap) - BOX.gap;
    column.forEach(({ node, index }, row) => {
      boxes.push({ node, index, column: at, x: at * BOX.column, y: (height - taken) / 2 + row * (BOX.height + BOX.gap) });
    });
  });
  const byIndex = new Map(boxes.map((box) => [box.index, box]));
  const most = Math.max(1e-9, ...topology.edges.map((edge) => edge.rps ?? 0));
  const lines: Line[] = [];
  for (const edge of topology.edges) {
    const [from, to] = [byIndex.get(edge.from), byIndex.get(edge.to)];
    if (!from || !to) continue;
    lines.push({ from, to, rps: edge.rps, failing: isLineFailing(from.node, to.node), width: MIN_LINE + ((edge.rps ?? 0) / most) * (MAX_LINE - MIN_LINE) });
  }
  return { boxes, lines, height, width: Math.max(1, columns.length - 1) * BOX.column + BOX.width, columns: used.map((kind, at) => ({ kind, x: at * BOX.column })) };
}

/** The box that an arrow key leads to: the next one in the column, or the nearest one in the next column. */
export function neighbour(boxes: Placed[], from: Placed, key: string): Placed | null {
  const column = (at: number) => boxes.filter((box) => box.column === at).sort((a, b) => a.y - b.y);
  if (key === 'ArrowDown' || key === 'ArrowUp') {
    const list = column(from.column);
    return list[list.indexOf(from) + (key === 'ArrowDown' ? 1 : -1)] ?? null;
  }
  if (key !== 'ArrowLeft' && key !== 'ArrowRight') return null;
  const list = column(from.column + (key === 'ArrowRight' ? 1 : -1));
  return list.reduce<Placed | null>((best, box) => (best === null || Math.abs(box.y - from.y) < Math.abs(best.y - from.y) ? box : best), null);
}
