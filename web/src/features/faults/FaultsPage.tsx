/** Every object that does not serve as it was written, and every fault that the source reports. */
import { useQuery } from '@tanstack/react-query';
import { get } from '../../api/client';
import { keys } from '../../api/keys';
import { usePoll } from '../../app/events';
import { objectPath } from '../../app/url';
import { CopyButton } from '../../ui/CopyText';
import { Go } from '../../ui/Go';
import { Mark } from '../../ui/Mark';
import { Page } from '../../ui/Page';
import { Problem, Skeleton } from '../../ui/Problem';
import { count } from '../../ui/format';
import './faults.css';

interface Fault {
  pointer: string;
  reason: string;
}
interface Verdict {
  kind: string;
  id: string;
  state: 'last_good' | 'out' | 'unplaced' | 'in_force';
  revision_in_force: number | null;
  revision_written: number;
  faults: Fault[];
  skipped_plugins: Fault[];
  warnings: Fault[];
}
interface Verdicts {
  revision: number;
  total: number;
  list: Verdict[];
  source_faults: (string | { reason: string })[];
}

function stateOf(verdict: Verdict): string {
  if (verdict.state === 'out') return 'out, answers 503';
  if (verdict.state === 'unplaced') return 'out, matches no request';
  if (verdict.state === 'last_good') return verdict.revision_in_force !== null ? `last good r${verdict.revision_in_force}` : 'last good form';
  return 'in force, in part';
}

/** The collection and the id of an object's page; credentials are below their consumer. */
function pageOf({ kind, id }: Verdict): { kind: string; id: string } {
  return kind === 'credentials' ? { kind: 'consumers', id } : { kind, id };
}

/** The place and the reason of a fault of a file, `FILE:LINE: PATH: REASON`. */
export function placeOf(text: string): { place: string; reason: string } {
  const found = /^(\S+:\d+): (.*)$/s.exec(text);
  return found ? { place: found[1] as string, reason: found[2] as string } : { place: '', reason: text };
}

export default function FaultsPage() {
  const poll = usePoll(30_000);
  const { data, error, refetch } = useQuery({ queryKey: keys.verdicts, queryFn: ({ signal }) => get<Verdicts>('weir/verdicts', undefined, signal), refetchInterval: poll });
  const source = (data?.source_faults ?? []).map((fault) => placeOf(typeof fault === 'string' ? fault : fault.reason));
  const list = [...(data?.list ?? [])].sort((a, b) => Number(a.state === 'last_good') - Number(b.state === 'last_good') || (a.kind + a.id < b.kind + b.id ? -1 : 1));
  return (
    <Page title="Faults" note={data ? `${count(data.total + source.length)} at r${data.revision}` : undefined}>
      {error ? <Problem title="The faults could not be loaded." error={error} retry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton lines={4} /> : null}
      {data && list.length + source.length === 0 ? <section className="card faults-none"><Mark state="ok" label="" /> Every object serves as written.</section> : null}
      {list.length > 0 ? (
        <section className="card" aria-label="Faulty objects">
          <ul className="faults">
            {list.map((verdict) => {
              const page = pageOf(verdict);
              const faults = verdict.faults.length > 0 ? verdict.faults : [...verdict.skipped_plugins, ...verdict.warnings];
              const [first, ...more] = faults;
              return (
                <li key={`${verdict.kind}/${verdict.id}`}>
                  <Mark state={verdict.state === 'last_good' || verdict.state === 'in_force' ? 'warn' : 'err'} label={stateOf(verdict)} />
                  <Go className="strong faults-key" to={objectPath(page.kind, page.id)}>{verdict.kind}/{verdict.id}</Go>
                  <span className="dim faults-state">{stateOf(verdict)}</span>
                  <span className="faults-reason">{first ? <><code>{first.pointer || 'object'}</code>: {first.reason}</> : 'no reason is known'}{more.length > 0 ? <span className="quiet"> and {more.length} more</span> : null}</span>
                  <span className="faults-actions">
                    {first ? <Go to={objectPath(page.kind, page.id)} search={{ tab: 'form', at: first.pointer }}>Open at the field</Go> : null}
                    {verdict.state === 'last_good' && verdict.revision_in_force !== null ? <Go to={objectPath(page.kind, page.id)} search={{ tab: 'history', rev: verdict.revision_in_force }}>Compare with what serves</Go> : null}
                  </span>
                </li>
              );
            })}
          </ul>
          {data && data.total > list.length ? <p className="quiet faults-none">The first {count(list.length)} of {count(data.total)} are shown.</p> : null}
        </section>
      ) : null}
      {source.length > 0 ? (
        <section className="card" aria-label="Faults of the source">
          <div className="card-head"><h2>In the source</h2></div>
          <ul className="faults">
            {source.map(({ place, reason }, index) => (
              <li key={index}>
                <Mark state="warn" label="fault of the source" />
                <code className="faults-key">{place || 'source'}</code>
                <span className="dim faults-state">file</span>
                <span className="faults-reason">{reason}</span>
                <span className="faults-actions">{place ? <>Copy place <CopyButton text={place} label="Copy the place" /></> : null}</span>
              </li>
            ))}
          </ul>
        </section>
      ) : null}
    </Page>
  );
}
