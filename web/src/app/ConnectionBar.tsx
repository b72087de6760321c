/** One bar on top while the instance does not answer: since when, and of when the data is. */
import { useEffect, useState } from 'react';
import { Mark } from '../ui/Mark';
import { Button } from '../ui/Button';
import { clock, span } from '../ui/format';
import { useConnection } from './connection';
import { queries } from './query';

export function ConnectionBar() {
  const { connected, lastMs } = useConnection();
  const [, tick] = useState(0);
  useEffect(() => {
    if (connected) return;
    let polls = 0;
    const timer = window.setInterval(() => {
      tick((n) => n + 1);
      polls += 1;
      // Every 5 s for a quarter of a minute, then every 30 s.
      if (polls % (polls < 15 ? 5 : 30) === 0) void queries.invalidateQueries({ queryKey: ['status'] });
    }, 1000);
    return () => window.clearInterval(timer);
  }, [connected]);
  if (connected) return null;
  return (
    <div className="lost" role="status">
      <Mark state="down" label="" />
      <span className="grow">Not connected for {span(Date.now() - lastMs)}; data of {clock(lastMs)}</span>
      <Button onClick={() => void queries.invalidateQueries({ queryKey: ['status'] })}>Try now</Button>
    </div>
  );
}
