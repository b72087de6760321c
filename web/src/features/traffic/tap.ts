/** The stream of requests while the page is shown, drawn at most four times a second. */
import { useCallback, useEffect, useRef, useState } from 'react';
import type { ApiError } from '../../api/client';
import { openStream, type StreamState } from '../../api/stream';
import type { RequestRecord, TapCount } from '../../api/types';
import { now } from '../../ui/Values';
import { TapStore, type Snapshot } from './store';

/** Time between two drawings; more often no eye follows a list. */
const DRAW_MS = 250;
/** A list shorter than this is not held: it is still filling, and nothing is read from it yet. */
const HELD_FROM = 25;
/** Pause after the last key before a new filter is sent. */
const TYPING_MS = 300;

export interface Tap extends Snapshot {
  state: StreamState;
  error: ApiError | undefined;
  /** Records that came while the view was held. */
  waiting: number;
  release: () => void;
}

const EMPTY: Snapshot = { records: [], count: null, bars: [] };

export function useTap(q: string, rate: number, paused: boolean, held: boolean): Tap {
  const store = useRef(new TapStore());
  const [shown, setShown] = useState<Snapshot>(EMPTY);
  const [waiting, setWaiting] = useState(0);
  const [state, setState] = useState<{ state: StreamState; error?: ApiError }>({ state: 'opening' });
  const [asked, setAsked] = useState(q);
  const dirty = useRef(false);
  const holding = useRef(held);
  holding.current = held && shown.records.length >= HELD_FROM;

  useEffect(() => {
    const timer = window.setTimeout(() => setAsked(q), q === asked ? 0 : TYPING_MS);
    return () => window.clearTimeout(timer);
  }, [q, asked]);

  const draw = useCallback(() => {
    dirty.current = false;
    setShown(store.current.snapshot(now()));
    setWaiting(0);
  }, []);

  useEffect(() => {
    store.current.clear();
    draw();
  }, [asked, draw]);

  useEffect(() => {
    if (paused) return;
    const close = openStream('weir/tap', {
      query: { q: asked, rate, timeline: 1 },
      onState: (next, error) => setState({ state: next, error }),
      onEvent: (name, data) => {
        if (name === 'request') store.current.add(data as RequestRecord);
        else if (name === 'count') store.current.tell(data as TapCount);
        else return;
        dirty.current = true;
      },
    });
    const timer = window.setInterval(() => {
      if (!dirty.current) return;
      if (holding.current) {
        const fresh = store.current.snapshot(now());
        setShown((old) => {
          setWaiting(fresh.records.length - old.records.length);
          return { ...old, count: fresh.count, bars: fresh.bars };
        });
        dirty.current = false;
      } else draw();
    }, DRAW_MS);
    return () => {
      window.clearInterval(timer);
      close();
    };
  }, [asked, rate, paused, draw]);

  return { ...shown, state: paused ? 'closed' : state.state, error: state.error, waiting, release: draw };
}
