/** The drawing of a time chart. */
import { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { clock, clockMinute } from './format';
import type { ChartSeries, TimeChartProps } from './TimeChart';
import './chart.css';

function cssValue(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Values of each series added to those of the series before it; unknown counts as a gap. */
export function stack(series: ChartSeries[]): (number | null)[][] {
  let sums: number[] = [];
  return series.map(({ values }) => {
    const next = values.map((value, at) => (value === null ? null : value + (sums[at] ?? 0)));
    sums = next.map((value, at) => value ?? sums[at] ?? 0);
    return next;
  });
}

/** Points without a neighbour, which a line alone would not show. */
function isolated(self: uPlot, index: number): number[] {
  const values = self.data[index] as (number | null)[];
  const found: number[] = [];
  values.forEach((value, at) => {
    if (value !== null && values[at - 1] == null && values[at + 1] == null) found.push(at);
  });
  return found;
}

function useThemeKey(): string {
  const read = () => `${document.documentElement.dataset.mantineColorScheme ?? ''}`;
  const [key, set] = useState(read);
  useEffect(() => {
    const observer = new MutationObserver(() => set(read()));
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-mantine-color-scheme'] });
    return () => observer.disconnect();
  }, []);
  return key;
}

function drawMarks(plot: uPlot, marks: TimeChartProps['marks']) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  let free = -Infinity;
  ctx.save();
  ctx.textAlign = 'left';
  ctx.font = `600 ${11 * ratio}px Inter, system-ui, sans-serif`;
  for (const mark of marks ?? []) {
    const x = Math.round(plot.valToPos(mark.at_ms / 1000, 'x', true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = cssValue('text-2');
    ctx.setLineDash([2 * ratio, 2 * ratio]);
    ctx.lineWidth = ratio;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const text = `r${mark.revision}`;
    const width = ctx.measureText(text).width + 6 * ratio;
    const left = Math.min(x, bbox.left + bbox.width - width);
    if (left < free) continue; // labels of close revisions would cover each other
    free = left + width + 2 * ratio;
    ctx.setLineDash([]);
    ctx.fillStyle = cssValue('surface');
    ctx.fillRect(left, bbox.top, width, 15 * ratio);
    ctx.strokeStyle = cssValue('border');
    ctx.strokeRect(left, bbox.top, width, 15 * ratio);
    ctx.fillStyle = cssValue('text-2');
    ctx.textBaseline = 'middle';
    ctx.fillText(text, left + 3 * ratio, bbox.top + 8 * ratio);
  }
  ctx.restore();
}

/** Whether ticks are closer than a minute, so that minutes alone would repeat. */
function isUnderMinute(ticks: number[]): boolean {
  return ticks.length > 1 && ticks[1]! - ticks[0]! < 60;
}

export default function TimeChartCanvas(props: TimeChartProps) {
  const { times, series, stacked = false, height = 200, sync, format, summary } = props;
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const themeKey = useThemeKey();
  const [at, setAt] = useState<number | null>(null);
  const shape = series.map((each) => `${each.label}${each.colour}${each.fill ?? ''}${each.dash ? 1 : 0}`).join();

  const data = (): uPlot.AlignedData => {
    const { times: x, series: all, stacked: isStacked = false } = latest.current;
    const columns = isStacked ? stack(all) : all.map((each) => each.values);
    return [x.map((time) => time / 1000), ...columns] as uPlot.AlignedData;
  };

  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    const axis = {
      stroke: cssValue('text-3'),
      grid: { stroke: cssValue('border'), width: 1 },
      ticks: { show: false },
      font: '11px Inter, system-ui, sans-serif',
    };
    const made = new uPlot(
      {
        width: element.clientWidth || 300,
        height: latest.current.height ?? height,
        padding: [8, 10, 0, 0],
        legend: { show: false },
        cursor: {
          sync: sync ? { key: sync } : undefined,
          drag: { x: false, y: false },
          y: false,
          points: { show: false },
        },
        scales: { x: { time: true }, y: { range: (_self, _min, max) => [0, Math.max(max * 1.08, 1e-9)] } },
        axes: [
          { ...axis, grid: { show: false }, size: 24, gap: 4, space: 90, values: (_self, ticks) => ticks.map((tick) => (isUnderMinute(ticks) ? clock(tick * 1000) : clockMinute(tick * 1000))) },
          { ...axis, size: 42, gap: 6, space: 36, values: (_self, ticks) => ticks.map((tick) => latest.current.format(tick, true)) },
        ],
        series: [
          {},
          ...series.map((each) => ({
            label: each.label,
            stroke: cssValue(each.colour),
            width: stacked ? 1.25 : 1.5,
            fill: each.fill ? cssValue(each.fill) : undefined,
            dash: each.dash ? [4, 3] : undefined,
            points: { show: true, size: 3, width: 0, fill: cssValue(each.colour), filter: isolated },
          })),
        ],
        bands: stacked
          ? series.slice(1).map((each, index) => ({ series: [index + 2, index + 1] as [number, number], fill: cssValue(each.fill ?? each.colour) }))
          : undefined,
        hooks: {
          draw: [(self) => drawMarks(self, latest.current.marks)],
          setCursor: [(self) => setAt(self.cursor.idx ?? null)],
        },
      },
      data(),
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: latest.current.height ?? height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
    // The plot is made anew only when its shape or the theme changes; data is set below.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [shape, stacked, sync, themeKey, height]);

  useEffect(() => {
    plot.current?.setData(data());
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [times, series, props.marks]);

  const move = (by: number) => {
    const self = plot.current;
    if (!self || times.length === 0) return;
    const next = Math.max(0, Math.min(times.length - 1, (self.cursor.idx ?? times.length) + by));
    self.setCursor({ left: self.valToPos(times[next]! / 1000, 'x'), top: 10 });
    setAt(next);
  };
  const index = at !== null && at < times.length ? at : null;
  return (
    <div
      className="chart" role="group" aria-label={summary} tabIndex={0}
      onKeyDown={(event) => {
        if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
        event.preventDefault();
        move((event.key === 'ArrowLeft' ? -1 : 1) * (event.shiftKey ? 10 : 1));
      }}
    >
      <div ref={holder} className="chart-canvas" style={{ height }} aria-hidden="true" />
      {index !== null && (
        <div className="chart-read" aria-live="polite">
          <b>{clock(times[index]!)}</b>
          {series.map((each) => {
            const value = each.values[index];
            return (
              <span key={each.label}>
                <i style={{ background: `var(--${each.fill ?? each.colour})` }} />
                {each.label} {value == null ? '–' : format(value, false)}
              </span>
            );
          })}
        </div>
      )}
      <ChartTable {...props} />
    </div>
  );
}

/** At most 12 rows, so that a screen reader is not given 360. */
function ChartTable({ times, series, format, summary }: TimeChartProps) {
  const step = Math.max(1, Math.ceil(times.length / 12));
  const rows = times.map((time, at) => ({ time, at })).filter(({ at }) => at % step === 0);
  return (
    <div className="sr">
    <table>
      <caption>{summary}</caption>
      <thead>
        <tr><th scope="col">Time</th>{series.map((each) => <th scope="col" key={each.label}>{each.label}</th>)}</tr>
      </thead>
      <tbody>
        {rows.map(({ time, at }) => (
          <tr key={time}>
            <th scope="row">{clock(time)}</th>
            {series.map((each) => {
              const value = each.values[at];
              return <td key={each.label}>{value == null ? '–' : format(value, false)}</td>;
            })}
          </tr>
        ))}
      </tbody>
    </table>
    </div>
  );
}

