/** A chart over time, drawn by uPlot in its own chunk; with a table of its values for screen readers. */
import { Suspense, lazy } from 'react';
import type { Num, RevisionMark } from '../api/types';
import type { ColourName } from '../tokens/tokens';
import { Skeleton } from './Problem';

export interface ChartSeries {
  label: string;
  values: Num[];
  colour: ColourName;
  /** Colour of the area below; only for stacked charts. */
  fill?: ColourName;
  dash?: boolean;
}

export interface TimeChartProps {
  /** Times in milliseconds, oldest first, one for each value of a series. */
  times: number[];
  series: ChartSeries[];
  stacked?: boolean;
  height?: number;
  marks?: RevisionMark[];
  /** Charts of one name share their cursor. */
  sync?: string;
  /** Text of a value, for the axis (`short`) and for the read-out. */
  format: (value: number, short: boolean) => string;
  /** One sentence about the chart, read out in its place. */
  summary: string;
  onMark?: (revision: number) => void;
}

const Canvas = lazy(() => import('./TimeChartCanvas'));

export function TimeChart(props: TimeChartProps) {
  return (
    <Suspense fallback={<Skeleton height={props.height ?? 200} />}>
      <Canvas {...props} />
    </Suspense>
  );
}
