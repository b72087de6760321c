/** Small drawings without axes: a line under a figure, a bar of a share. Decorative beside their number. */
import type { Num } from '../api/types';
import type { ColourName } from '../tokens/tokens';
import './spark.css';

interface SparkProps {
  values: Num[];
  colour?: ColourName;
  fill?: boolean;
  width?: number;
  height?: number;
  /** Lowest top of the scale, so that noise near zero is not drawn as hills. */
  least?: number;
}

/** Points of a path; a gap where a value is unknown. */
export function sparkPath(values: Num[], width: number, height: number, least = 0): string {
  const known = values.filter((value): value is number => value !== null);
  const top = Math.max(least, ...known, 1e-9) * 1.05;
  const step = width / Math.max(1, values.length - 1);
  let path = '';
  let pen = false;
  values.forEach((value, at) => {
    if (value === null) {
      pen = false;
      return;
    }
    const y = height - 1 - (value / top) * (height - 2);
    path += `${pen ? 'L' : 'M'}${(at * step).toFixed(1)} ${y.toFixed(1)}`;
    pen = true;
  });
  return path;
}

export function Spark({ values, colour = 'chart-1', fill = true, width = 190, height = 26, least }: SparkProps) {
  const path = sparkPath(values, width, height, least);
  if (path === '' || values.length < 2) return <svg className="spark" height={height} aria-hidden="true" />;
  return (
    <svg className="spark" viewBox={`0 0 ${width} ${height}`} height={height} preserveAspectRatio="none" aria-hidden="true">
      {fill && !values.includes(null) && <path d={`${path}L${width} ${height}L0 ${height}Z`} fill={`var(--${colour})`} opacity="0.16" />}
      <path d={path} fill="none" stroke={`var(--${colour})`} strokeWidth="1.5" vectorEffect="non-scaling-stroke" />
    </svg>
  );
}

/** A share of 100 as a bar. */
export function Bar({ share, width = 64, colour = 'fill-2xx' }: { share: number; width?: number; colour?: ColourName }) {
  const part = Math.max(0, Math.min(100, share)) / 100;
  return (
    <span className="bar" aria-hidden="true" style={{ width }}>
      <i style={{ width: Math.max(part * width, share > 0 ? 2 : 0), background: `var(--${colour})` }} />
    </span>
  );
}
