/** Whether the instance answers, by the answers themselves; the bar on top and writes depend on it. */
import { useSyncExternalStore } from 'react';
import { onAnswer } from '../api/client';

export interface Connection {
  connected: boolean;
  /** Time of the last answer. */
  lastMs: number;
  /** Calls that failed since. */
  failures: number;
}

let current: Connection = { connected: true, lastMs: Date.now(), failures: 0 };
const listeners = new Set<() => void>();

onAnswer((status) => {
  const lost = status === 0;
  const before = current;
  current = lost
    ? { connected: false, lastMs: before.lastMs, failures: before.failures + 1 }
    : { connected: true, lastMs: Date.now(), failures: 0 };
  if (before.connected !== current.connected || lost) for (const listener of listeners) listener();
});

export function useConnection(): Connection {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    () => current,
  );
}
