/** The overview: what is wrong, how much passes, where it goes. */
import { useState } from 'react';
import { IconPlayerPause, IconPlayerPlay } from '@tabler/icons-react';
import { useConnection } from '../../app/connection';
import { useSession } from '../../app/session';
import { useLetters } from '../../app/shortcuts';
import { go, useSearch, useSetSearch } from '../../app/url';
import { Button, Segmented } from '../../ui/Button';
import { Legend } from '../../ui/Legend';
import { Card, Page } from '../../ui/Page';
import { Empty, Problem, Skeleton } from '../../ui/Problem';
import { TimeChart, type ChartSeries } from '../../ui/TimeChart';
import { count, duration, percent, rate } from '../../ui/format';
import { Attention } from './Attention';
import { EndpointsCard, ChangesCard } from './Side';
import { Figures } from './Figures';
import { TopTable } from './TopTable';
import { useOverview, type View } from './data';
import './overview.css';

const CLASSES = ['2xx', '3xx', '4xx', '5xx'] as const;

function requestSeries(view: View): ChartSeries[] {
  return CLASSES.map((name) => ({ label: name, values: view.series[`req_${name}`], colour: `edge-${name}`, fill: `fill-${name}` }));
}
function latencySeries(view: View): ChartSeries[] {
  return [
    { label: 'p50', values: view.series.p50_us, colour: 'chart-1' },
    { label: 'p90', values: view.series.p90_us, colour: 'chart-2', dash: true },
    { label: 'p99', values: view.series.p99_us, colour: 'chart-3' },
  ];
}
function shortRate(value: number, short: boolean): string {
  return short && value >= 1000 ? `${+(value / 1000).toFixed(1)}k` : rate(value);
}
function shortMillis(value: number, short: boolean): string {
  return short ? String(+(value / 1000).toFixed(value < 10_000 ? 1 : 0)) : duration(value);
}

function Charts({ view }: { view: View }) {
  const requests = requestSeries(view);
  const latency = latencySeries(view);
  const now = view.now;
  const share = now.requests ? percent(((now.req_5xx ?? 0) / now.requests) * 100) : percent(0);
  return (
    <div className="charts">
      <Card title="Requests a second" right={<Legend series={CLASSES.map((name) => ({ label: name, colour: `fill-${name}` }))} />}>
        <TimeChart
          times={view.times} series={requests} stacked marks={view.marks} sync="overview" format={shortRate} height={204}
          summary={`Requests a second by class of status: now ${rate(now.requests)}, of these ${share} 5xx.`}
        />
      </Card>
      <Card title="Latency, ms" right={<Legend series={latency.map(({ label, colour, dash }) => ({ label, colour, dash, line: true }))} />}>
        <TimeChart
          times={view.times} series={latency} marks={view.marks} sync="overview" format={shortMillis} height={204}
          summary={`Latency: now p50 ${duration(now.p50_us)}, p90 ${duration(now.p90_us)}, p99 ${duration(now.p99_us)}.`}
        />
      </Card>
    </div>
  );
}

export default function OverviewPage() {
  const search = useSearch();
  const set = useSetSearch();
  const session = useSession();
  const { connected } = useConnection();
  const [paused, setPaused] = useState(false);
  const minutes = search.range === '15m' ? 15 : 60;
  const { view, now, error, retry } = useOverview(minutes, paused);
  const choose = (range: '15m' | '1h') => set({ range: range === '1h' ? null : range });
  useLetters((key) => {
    if (key === '1') choose('15m');
    else if (key === '2') choose('1h');
    else if (key === 'p') setPaused((old) => !old);
    else return false;
    return true;
  });
  const proxy = session.listeners.find((each) => each.name === 'proxy') ?? session.listeners.find((each) => each.name !== 'admin');
  const fresh = now !== undefined && now.requests_total === 0;
  return (
    <Page
      title="Overview"
      note={minutes === 60 ? 'Last hour, kept by this instance' : 'Last 15 minutes, kept by this instance'}
      actions={
        <>
          <Segmented label="Range" value={minutes === 15 ? '15m' : '1h'} options={[{ value: '15m', label: '15 min' }, { value: '1h', label: '1 hour' }]} onChange={choose} />
          <Button pressed={paused} onClick={() => setPaused(!paused)} icon={paused ? <IconPlayerPlay size={16} stroke={1.75} /> : <IconPlayerPause size={16} stroke={1.75} />}>
            {paused ? 'Paused' : 'Live'}
          </Button>
        </>
      }
    >
      {view && now ? (
        <div className="overview" data-stale={!connected}>
          <Attention overview={view} />
          <Figures view={view} now={now} />
          {fresh ? (
            <section className="card">
              <Empty title={`No request yet. The proxy listens on ${proxy?.address ?? 'its port'}.`} curl={`curl -i http://${proxy?.address ?? '127.0.0.1:9080'}/`}>
                <Button look="main" onClick={() => go('/routes/new')}>New route</Button>
              </Empty>
            </section>
          ) : view.times.length < 2 ? (
            <p className="card overview-young quiet">The first points come {Math.round(view.step_ms / 500)} s after the start of the instance.</p>
          ) : <Charts view={{ ...view, now }} />}
          <div className="columns">
            <TopTable paused={paused} />
            <div className="side">
              <EndpointsCard />
              <ChangesCard />
            </div>
          </div>
          <p className="sr" aria-live="off">{count(now.requests_total)} requests since the start</p>
        </div>
      ) : error ? <Problem error={error} retry={retry} /> : <Skeleton height={640} />}
    </Page>
  );
}
