/** The last sixty seconds of shown requests by class, as small bars. */
import type { Second } from './store';

const HEIGHT = 30;

export function Bars({ bars }: { bars: Second[] }) {
  const top = Math.max(1, ...bars.map((bar) => bar.ok + bar.client + bar.server));
  const sum = bars.reduce((all, bar) => ({ ok: all.ok + bar.ok, client: all.client + bar.client, server: all.server + bar.server }), { ok: 0, client: 0, server: 0 });
  return (
    <svg className="tap-bars" viewBox={`0 0 300 ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`Shown in the last minute: ${sum.ok} up to 399, ${sum.client} of 4xx, ${sum.server} of 5xx`}>
      <line x1="0" x2="300" y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} stroke="var(--border)" />
      {bars.map((bar, at) => {
        const scale = (HEIGHT - 1) / top;
        const [ok, client, server] = [bar.ok * scale, bar.client * scale, bar.server * scale];
        return (
          <g key={at}>
            <rect x={at * 5} width="4" y={HEIGHT - ok} height={ok} fill="var(--fill-2xx)" />
            <rect x={at * 5} width="4" y={HEIGHT - ok - client} height={client} fill="var(--fill-4xx)" />
            <rect x={at * 5} width="4" y={HEIGHT - ok - client - server} height={server} fill="var(--fill-5xx)" />
          </g>
        );
      })}
    </svg>
  );
}
