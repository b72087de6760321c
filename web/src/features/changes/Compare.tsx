/** The difference of two revisions. */
import { useState } from 'react';
import { useQuery } from '@tanstack/react-query';
import { go } from '../../app/url';
import { PlanView } from '../../forms/PlanView';
import { planBetween, sentenceOf } from '../../forms/plan';
import { Button } from '../../ui/Button';
import { Problem, Skeleton } from '../../ui/Problem';

export function Compare({ from, to, onClose }: { from: number; to: number; onClose: () => void }) {
  const [ends, setEnds] = useState({ from: String(from), to: String(to) });
  const { data, error } = useQuery({ queryKey: ['plan', from, to], queryFn: ({ signal }) => planBetween({ from, to }, signal), staleTime: Number.POSITIVE_INFINITY, retry: false });
  const good = /^\d+$/.test(ends.from) && /^\d+$/.test(ends.to);
  return (
    <section className="card" aria-label="Compare two revisions">
      <div className="card-head"><h2>Compare two</h2><div className="card-right"><Button onClick={onClose}>Close</Button></div></div>
      <form className="changes-body" onSubmit={(event) => {
        event.preventDefault();
        if (good) go('/changes', { compare: `${ends.from}..${ends.to}` });
      }}>
        <div className="changes-tools">
          <label className="row">from r<input className="input" size={8} inputMode="numeric" value={ends.from} onChange={(event) => setEnds({ ...ends, from: event.target.value })} /></label>
          <label className="row">to r<input className="input" size={8} inputMode="numeric" value={ends.to} onChange={(event) => setEnds({ ...ends, to: event.target.value })} /></label>
          <Button type="submit" disabled={!good}>Compare</Button>
          <Button onClick={() => go('/changes', { compare: `${to}..${from}` })}>Swap</Button>
        </div>
        {error ? <Problem title="The two revisions could not be compared." error={error} /> : data ? <><p>From r{from} to r{to}: <span className="strong">{sentenceOf(data)}</span>.</p><PlanView plan={data} /></> : <Skeleton lines={3} />}
      </form>
    </section>
  );
}
