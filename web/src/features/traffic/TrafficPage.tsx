/** Live traffic: the requests that match a filter, with the failures kept while no page was open. */
import { useCallback, useEffect, useMemo, useState } from 'react';
import { IconPlayerPause, IconPlayerPlay } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { ApiError, get } from '../../api/client';
import { keys } from '../../api/keys';
import type { Failures, RequestRecord } from '../../api/types';
import { useLetters } from '../../app/shortcuts';
import { useSearch, useSetSearch } from '../../app/url';
import { Button, Chip } from '../../ui/Button';
import { Mark } from '../../ui/Mark';
import { useMedia, usePhone } from '../../ui/media';
import { Page } from '../../ui/Page';
import { Empty, Problem } from '../../ui/Problem';
import { QueryField } from '../../ui/QueryField';
import { count, rate } from '../../ui/format';
import { Bars } from './Bars';
import { RequestDrawer, explainRequest } from './RequestDrawer';
import { RequestTable, cellFilter } from './RequestTable';
import { SLOW_US, classes } from './store';
import { useTap, type Tap } from './tap';
import './traffic.css';

export const FIELDS = ['status', 'method', 'host', 'path', 'route', 'service', 'consumer', 'upstream', 'endpoint', 'cause', 'client', 'took', 'total', 'bytes', 'protocol', 'worker'];
const RATES = [10, 50, 200, 500];
type Only = 'server' | 'client' | 'slow' | 'kept';

function wordValues(records: RequestRecord[], field: string): string[] {
  if (field === 'status') return ['>=500', '>=400', '4*', '200', ...new Set(records.map((each) => String(each.status)))];
  if (field === 'took') return ['>100ms', '>200ms', '>1s'];
  const pick: Record<string, (record: RequestRecord) => string | null> = {
    method: (each) => each.method, host: (each) => each.host, route: (each) => each.route, service: (each) => each.service, consumer: (each) => each.consumer,
    upstream: (each) => each.upstream, endpoint: (each) => each.endpoint, cause: (each) => each.cause, client: (each) => each.client, protocol: (each) => each.protocol,
  };
  const of = pick[field];
  if (!of) return [];
  return [...new Set(records.slice(0, 500).map(of))].filter((value): value is string => value !== null && value !== '').slice(0, 40);
}

function note(tap: Tap, shown: number, paused: boolean): string {
  if (paused) return 'paused';
  const counts = tap.count;
  if (!counts) return tap.state === 'hidden' ? 'closed while the page is hidden' : tap.state === 'waiting' ? 'waiting for the instance' : 'opening';
  const parts = [`${rate(counts.seen)} /s pass`, `${rate(counts.matched)} match`, `${count(shown)} shown`];
  if (counts.dropped > 0) parts.push(`${rate(counts.dropped)} /s dropped`);
  if (counts.sampled > 1) parts.push(`1 of ${counts.sampled} requests`);
  return parts.join(' · ');
}

/** Adds a word to a query unless it holds it. */
export function withWord(q: string, word: string): string {
  return q.split(/\s+/).includes(word) ? q : `${q} ${word}`.trim();
}

export default function TrafficPage() {
  const search = useSearch();
  const set = useSetSearch();
  const phone = usePhone();
  const q = search.q ?? '';
  const perSecond = RATES.includes(Number(search.rate)) ? Number(search.rate) : 50;
  const only = (['server', 'client', 'slow', 'kept'] as const).find((each) => each === search.only) ?? null;
  const [paused, setPaused] = useState(false);
  const [atTop, setAtTop] = useState(true);
  const [hovered, setHovered] = useState(false);
  const [cursorId, setCursorId] = useState<string | null>(null);
  const [opened, setOpened] = useState<RequestRecord | null>(null);
  const tap = useTap(q, perSecond, paused, (!atTop || hovered) && !phone);
  const kept = useQuery({
    queryKey: keys.failures(q),
    queryFn: ({ signal }) => get<Failures>('weir/failures', { q, limit: 256 }, signal),
    enabled: !(tap.error?.status === 400),
    refetchInterval: paused ? false : 10_000,
    placeholderData: (old) => old,
  });
  const keptList = kept.data?.list;
  const list = useMemo(() => {
    if (only === 'kept') return keptList ?? [];
    if (only === 'server') return tap.records.filter((each) => each.status >= 500);
    if (only === 'client') return tap.records.filter((each) => each.status >= 400 && each.status < 500);
    if (only === 'slow') return tap.records.filter((each) => each.total_us > SLOW_US);
    return tap.records;
  }, [only, tap.records, keptList]);
  const counts = useMemo(() => classes(tap.records), [tap.records]);
  const requested = search.request ?? null;
  const found = useMemo(
    () => (requested === null ? null : (list.find((each) => each.id === requested) ?? keptList?.find((each) => each.id === requested) ?? null)),
    [requested, list, keptList],
  );
  // An opened request stays open after it has left the list.
  useEffect(() => {
    if (found) setOpened((old) => (old?.id === found.id && old.spans.length >= found.spans.length ? old : found));
    if (requested === null) setOpened(null);
  }, [found, requested]);
  const record = requested !== null && opened?.id === requested ? opened : found;
  const wide = useMedia('(min-width: 1400px)') && record === null;

  const cursor = list.findIndex((each) => each.id === cursorId);
  const current = list[cursor] ?? null;
  const open = useCallback((each: RequestRecord) => set({ request: each.id }, requested === null), [set, requested]);
  const moveTo = useCallback((at: number) => setCursorId(list[at]?.id ?? null), [list]);
  const toggle = (value: Only) => set({ only: only === value ? null : value });
  useLetters((key) => {
    if (key === 'p') setPaused((old) => !old);
    else if (key === 'j' || key === 'k') {
      const next = list[Math.max(0, Math.min(list.length - 1, cursor < 0 ? 0 : cursor + (key === 'j' ? 1 : -1)))];
      if (!next) return true;
      setCursorId(next.id);
      if (record) open(next);
    } else if (key === 'e' && current) explainRequest(current);
    else if (key === 'f' && current) {
      const field = (document.activeElement as HTMLElement | null)?.dataset.field || (current.cause ? 'cause' : 'route');
      const word = cellFilter(current, field);
      if (word) set({ q: withWord(q, word) }, true);
    } else if (key === 'Enter' && current && document.activeElement === document.body) open(current);
    else return false;
    return true;
  });

  const queryError = tap.error?.status === 400 ? tap.error : kept.error instanceof ApiError && kept.error.status === 400 ? kept.error : undefined;
  const tooMany = tap.error?.status === 429;
  return (
    <Page title="Traffic" note={<span aria-live="off">{note(tap, list.length, paused)}</span>} full>
      <div className="tap" data-drawer={record !== null && !phone}>
        <div className="tap-filter">
          <QueryField
            value={q} onChange={(value, commit) => set({ q: value }, commit)} fields={FIELDS} values={(field) => wordValues(tap.records, field)}
            error={queryError} placeholder="status:>=500 route: cause: took:>200ms" label="Filter requests"
          />
          <Button pressed={paused} onClick={() => setPaused(!paused)} icon={paused ? <IconPlayerPlay size={16} stroke={1.75} /> : <IconPlayerPause size={16} stroke={1.75} />}>
            {paused ? 'Go on' : 'Pause'}
          </Button>
          <select className="input tap-rate" aria-label="Requests shown a second at most" value={perSecond} onChange={(event) => set({ rate: event.target.value === '50' ? null : event.target.value })}>
            {RATES.map((each) => <option key={each} value={each}>{each}/s</option>)}
          </select>
        </div>
        <div className="tap-facets">
          <Bars bars={tap.bars} />
          <Chip pressed={only === 'server'} onClick={() => toggle('server')} mark={<Mark state="err" label="" size={11} />} count={count(counts.server)}>5xx</Chip>
          <Chip pressed={only === 'client'} onClick={() => toggle('client')} mark={<Mark state="warn" label="" size={11} />} count={count(counts.client)}>4xx</Chip>
          <Chip pressed={only === 'slow'} onClick={() => toggle('slow')} count={count(counts.slow)}>Slow</Chip>
          <Chip pressed={only === 'kept'} onClick={() => toggle('kept')} count={count(keptList?.length)}>Failures kept</Chip>
        </div>
        {tooMany && <Problem title="Four pages read the traffic already." detail="Close one of them; this page goes on by itself." />}
        <div className="card tap-card">
          {tap.waiting > 0 && (
            <button type="button" className="tap-new" onClick={tap.release}>{count(tap.waiting)} new</button>
          )}
          {list.length > 0 ? (
            <RequestTable
              records={list} selected={record?.id ?? null} cursor={cursor} phone={phone} wide={wide}
              onCursor={moveTo} onOpen={open} onTop={setAtTop} onHover={setHovered}
            />
          ) : <Nothing tap={tap} q={q} only={only} paused={paused} onClear={() => set({ q: null, only: null }, true)} />}
          <div className="tap-foot">
            <span>Newest first</span>
            <span className="side-key"><i className="swatch span-gateway" /> gateway</span>
            <span className="side-key"><i className="swatch span-endpoint" /> endpoint</span>
            <span className="tap-kept">{kept.data ? `${count(kept.data.list.length)} failures kept${kept.data.lost > 0 ? `, ${count(kept.data.lost)} lost` : ''}` : ''}</span>
          </div>
        </div>
      </div>
      {record && <RequestDrawer record={record} onClose={() => set({ request: null }, true)} onFilter={(word) => set({ q: withWord(q, word) }, true)} />}
      {requested !== null && !record && kept.isFetched && tap.state !== 'opening' && (
        <div className="tap-gone" role="status">Request {requested} is no longer kept. <button type="button" onClick={() => set({ request: null })}>Close</button></div>
      )}
    </Page>
  );
}

function Nothing({ tap, q, only, paused, onClear }: { tap: Tap; q: string; only: Only | null; paused: boolean; onClear: () => void }) {
  if (tap.error && tap.error.status !== 400 && tap.state === 'refused') return <Problem error={tap.error} />;
  if (only === 'kept') return <Empty title="No failure is kept." />;
  if (q !== '' || only !== null) {
    return (
      <Empty title={`No request matches${tap.count ? `; ${rate(tap.count.seen)} a second pass` : ''}.`} action={<Button onClick={onClear}>Clear the filter</Button>} />
    );
  }
  return <Empty title={paused ? 'Paused. Nothing is recorded now.' : tap.state === 'open' ? 'No request passes now.' : 'Opening the stream.'} curl={tap.state === 'open' ? `curl -i http://${window.location.hostname}:9080/` : undefined} />;
}
