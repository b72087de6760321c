/** The one stream of events of a visible tab (E16): samples, revisions, faults and health, for all pages. */
import { createContext, useContext, useEffect, useMemo, useRef, useState, type ReactNode } from 'react';
import { openStream, type StreamState } from '../api/stream';
import type { Sample } from '../api/types';
import { queries, sawRevision } from './query';

type Listener = (name: string, data: unknown) => void;
interface Events {
  state: StreamState;
  subscribe: (listener: Listener) => () => void;
}
const Context = createContext<Events>({ state: 'closed', subscribe: () => () => undefined });

/** Pages ask at most this often for what an event made stale. */
const STALE_MS = 1000;

export function EventsProvider({ active, children }: { active: boolean; children: ReactNode }) {
  const [state, setState] = useState<StreamState>('opening');
  const listeners = useRef(new Set<Listener>());
  useEffect(() => {
    if (!active) return;
    let timer: number | undefined;
    const stale = new Set<string>();
    const later = (...roots: string[]) => {
      for (const root of roots) stale.add(root);
      timer ??= window.setTimeout(() => {
        timer = undefined;
        const roots = new Set(stale);
        stale.clear();
        void queries.invalidateQueries({ predicate: ({ queryKey }) => roots.has(String(queryKey[0])) });
      }, STALE_MS);
    };
    const close = openStream('weir/events', {
      query: { topics: 'sample,revision,fault,health' },
      onState: setState,
      onEvent: (name, data) => {
        if (name === 'revision') {
          const { revision } = data as { revision: number };
          sawRevision(revision);
          later('status', 'overview');
        } else if (name === 'fault') later('status', 'verdicts', 'overview');
        else if (name === 'health') later('upstreams', 'overview', 'topology');
        else if (name === 'lagged') void queries.invalidateQueries();
        for (const listener of listeners.current) listener(name, data);
      },
    });
    return () => {
      window.clearTimeout(timer);
      close();
    };
  }, [active]);
  const value = useMemo<Events>(() => ({
    state,
    subscribe: (listener) => {
      listeners.current.add(listener);
      return () => void listeners.current.delete(listener);
    },
  }), [state]);
  return <Context.Provider value={value}>{children}</Context.Provider>;
}

export function useEvents(): Events {
  return useContext(Context);
}

/** Calls `take` with each sample of the stream. */
export function useSamples(take: (sample: Sample) => void): void {
  const { subscribe } = useEvents();
  const latest = useRef(take);
  latest.current = take;
  useEffect(() => subscribe((name, data) => name === 'sample' && latest.current(data as Sample)), [subscribe]);
}

/** Milliseconds between polls: none while the stream tells, every 5 s without it. */
export function usePoll(withStream: number | false = false): number | false {
  const { state } = useEvents();
  return state === 'open' ? withStream : state === 'hidden' ? false : 5_000;
}
