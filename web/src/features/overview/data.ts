/** The overview's data: one answer, brought forward by the samples of the stream. */
import { useCallback, useMemo, useState } from 'react';
import { useQuery } from '@tanstack/react-query';
import { get } from '../../api/client';
import { keys } from '../../api/keys';
import type { Num, Overview, OverviewNow, SeriesName, Top } from '../../api/types';
import { usePoll, useSamples } from '../../app/events';

export const SERIES: SeriesName[] = [
  'req_2xx', 'req_3xx', 'req_4xx', 'req_5xx', 'p50_us', 'p90_us', 'p99_us', 'cpu', 'rss', 'in_flight', 'connections',
];

export interface View extends Overview { times: number[] }

/** Times of the points, oldest first. */
export function timesOf(overview: Overview): number[] {
  const length = overview.series.req_2xx.length;
  return Array.from({ length }, (_, at) => overview.end_ms - (length - 1 - at) * overview.step_ms);
}

/** The points of an hour as far as the range goes; a ring younger than the range has fewer. */
export function cut(overview: Overview, minutes: number): View {
  const points = Math.ceil((minutes * 60_000) / overview.step_ms);
  const series = Object.fromEntries(SERIES.map((name) => [name, (overview.series[name] ?? []).slice(-points)])) as Record<SeriesName, Num[]>;
  const part = { ...overview, series };
  const times = timesOf(part);
  const first = times[0] ?? overview.end_ms;
  return { ...part, times, marks: overview.marks.filter((mark) => mark.at_ms >= first - overview.step_ms) };
}

export function useOverview(minutes: number, paused: boolean): { view: View | undefined; now: OverviewNow | undefined; error: unknown; retry: () => void; loadedMs: number } {
  const poll = usePoll(10_000);
  const query = useQuery({
    queryKey: keys.overview(60),
    queryFn: ({ signal }) => get<Overview>('weir/overview', { minutes: 60 }, signal),
    refetchInterval: paused ? false : poll,
    staleTime: 5_000,
  });
  const [sample, setSample] = useState<{ end_ms: number; now: OverviewNow } | null>(null);
  const isPaused = paused;
  useSamples(useCallback((next) => {
    if (!isPaused) setSample(next);
  }, [isPaused]));
  const view = useMemo(() => (query.data ? cut(query.data, minutes) : undefined), [query.data, minutes]);
  const now = query.data && sample && sample.end_ms > query.data.end_ms ? sample.now : query.data?.now;
  return { view, now, error: query.error, retry: () => void query.refetch(), loadedMs: query.dataUpdatedAt };
}

export type TopBy = 'routes' | 'consumers' | 'endpoints' | 'causes';

export function useTop(by: TopBy, paused: boolean) {
  return useQuery({
    queryKey: keys.top(by, 60),
    queryFn: ({ signal }) => get<Top>('weir/top', { by, window: 60, limit: 20 }, signal),
    refetchInterval: paused ? false : 5_000,
    placeholderData: (old) => old,
  });
}

/** Sum of known values, null when none is known. */
export function sum(...values: Num[]): Num {
  const known = values.filter((value): value is number => value !== null);
  return known.length === 0 ? null : known.reduce((total, value) => total + value, 0);
}

/** Requests a second at each point. */
export function totals(view: View): Num[] {
  const { req_2xx: ok, req_3xx: moved, req_4xx: client, req_5xx: server } = view.series;
  return ok.map((_, at) => sum(ok[at] ?? null, moved[at] ?? null, client[at] ?? null, server[at] ?? null));
}

/** The share of 5xx at each point, in percent. */
export function faultShares(view: View): Num[] {
  const all = totals(view);
  return view.series.req_5xx.map((value, at) => {
    const total = all[at];
    return value === null || total == null ? null : total === 0 ? 0 : (value / total) * 100;
  });
}

/** Change of the newest points against the oldest ones, in percent; null when there is nothing to compare. */
export function change(values: Num[], points = 6): Num {
  const known = values.filter((value): value is number => value !== null);
  if (known.length < points * 2) return null;
  const mean = (part: number[]) => part.reduce((total, value) => total + value, 0) / part.length;
  const before = mean(known.slice(0, points));
  return before === 0 ? null : (mean(known.slice(-points)) / before - 1) * 100;
}
