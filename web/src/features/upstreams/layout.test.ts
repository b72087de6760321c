import { expect, it } from 'vitest';
import type { Topology } from '../../api/types';
import { layout, neighbour } from './layout';

const node = (kind: Topology['nodes'][number]['kind'], id: string, rps: number, state: Topology['nodes'][number]['state'] = 'up') => ({ kind, id, name: null, state, rps, p5xx: 0 });
const topology: Topology = {
  nodes: [node('routes', 'a', 10), node('routes', 'b', 1), node('upstreams', 'u', 11), node('endpoints', '1', 11), node('endpoints', '2', 0, 'down')],
  edges: [{ from: 0, to: 2, rps: 10 }, { from: 1, to: 2, rps: 1 }, { from: 2, to: 3, rps: 11 }, { from: 2, to: 4, rps: 0 }],
  folded: {},
};

it('columns without nodes take no room', () => {
  const { columns, boxes } = layout(topology);
  expect(columns.map((each) => each.kind)).toEqual(['routes', 'upstreams', 'endpoints']);
  expect(boxes).toHaveLength(5);
});
it('boxes of a column do not overlap', () => {
  const { boxes } = layout(topology);
  const ys = boxes.filter((box) => box.column === 0).map((box) => box.y).sort((a, b) => a - b);
  expect(ys[1]! - ys[0]!).toBeGreaterThan(34);
});
it('line to a dead endpoint is failing and thin', () => {
  const line = layout(topology).lines.find((each) => each.to.node.id === '2');
  expect(line).toMatchObject({ failing: true, width: 1 });
});
it('edge to a missing node is left out', () => {
  expect(layout({ ...topology, edges: [{ from: 0, to: 99, rps: 1 }] }).lines).toHaveLength(0);
});
it('arrows walk the columns', () => {
  const { boxes } = layout(topology);
  const upstream = boxes.find((box) => box.node.id === 'u')!;
  expect(neighbour(boxes, upstream, 'ArrowLeft')?.node.kind).toBe('routes');
  expect(neighbour(boxes, upstream, 'ArrowDown')).toBeNull();
});
it('forty nodes are placed under 100 ms', () => {
  const many: Topology = {
    nodes: [...Array.from({ length: 38 }, (_, at) => node('routes', `r${at}`, at)), node('upstreams', 'u', 1)],
    edges: Array.from({ length: 38 }, (_, at) => ({ from: at, to: 38, rps: at })), folded: { routes: 9962 },
  };
  const begin = performance.now();
  layout(many);
  expect(performance.now() - begin).toBeLessThan(100);
});
