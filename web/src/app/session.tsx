/** The session: the key, the role (E1), sign-in and sign-out, and the end after 30 idle minutes. */
import { createContext, useCallback, useContext, useEffect, useMemo, useRef, useState, type ReactNode } from 'react';
import { ApiError, onAnswer, request } from '../api/client';
import { clearKey, readKey, writeKey, type KeyMode } from '../api/key';
import type { Session } from '../api/types';
import { dropTyped } from '../forms/typed';
import { queries } from './query';

const IDLE_MS = 30 * 60_000;

export type SessionState =
  | { state: 'loading' }
  /** `again`: the page below was in use, so it stays mounted and drafts survive. */
  | { state: 'out'; again: boolean; reason: string | null }
  | { state: 'in'; session: Session };

interface SessionApi {
  current: SessionState;
  signIn: (key: string, mode: KeyMode) => Promise<void>;
  signOut: (reason?: string) => void;
}

const Context = createContext<SessionApi | null>(null);

/** One sentence for a refused key, by the status of the answer. */
export function refusal(error: unknown): string {
  if (!(error instanceof ApiError)) return 'The answer could not be read.';
  if (error.status === 0) return 'The instance cannot be reached.';
  if (error.status === 401) return 'This key is not known to the instance.';
  if (error.status === 403) return `Refused: ${error.message}`;
  if (error.status === 429) return `Refused: ${error.message}`;
  if (error.status === 503) return `The instance does not serve now: ${error.message}`;
  return error.message;
}

export function SessionProvider({ children }: { children: ReactNode }) {
  const [current, setCurrent] = useState<SessionState>({ state: 'loading' });
  const wasIn = useRef(false);

  const load = useCallback(async (key?: string | null) => {
    const { data } = await request<Session>('GET', 'weir/session', key === undefined ? {} : { key });
    return data;
  }, []);

  useEffect(() => {
    load().then(
      (session) => {
        wasIn.current = true;
        setCurrent({ state: 'in', session });
      },
      (error: unknown) => {
        const known = readKey() !== null;
        if (error instanceof ApiError && error.status === 401) clearKey();
        setCurrent({ state: 'out', again: false, reason: known || !(error instanceof ApiError && error.status === 401) ? refusal(error) : null });
      },
    );
  }, [load]);

  const signIn = useCallback(async (key: string, mode: KeyMode) => {
    const session = await load(key);
    writeKey(key, mode);
    wasIn.current = true;
    await queries.invalidateQueries();
    setCurrent({ state: 'in', session });
  }, [load]);

  const signOut = useCallback((reason?: string) => {
    clearKey();
    dropTyped('');
    queries.clear();
    wasIn.current = false;
    setCurrent({ state: 'out', again: false, reason: reason ?? null });
  }, []);

  useEffect(() => onAnswer((status) => {
    if (status !== 401 || !wasIn.current) return;
    clearKey();
    setCurrent((old) => (old.state === 'in' ? { state: 'out', again: true, reason: 'The instance no longer accepts the key.' } : old));
  }), []);

  useEffect(() => {
    if (current.state !== 'in') return;
    let last = Date.now();
    const touch = () => void (last = Date.now());
    const names = ['pointerdown', 'keydown', 'wheel'] as const;
    for (const name of names) window.addEventListener(name, touch, { passive: true });
    const timer = window.setInterval(() => {
      if (Date.now() - last < IDLE_MS || readKey() === null) return;
      clearKey();
      setCurrent({ state: 'out', again: true, reason: 'Signed out after 30 minutes without input.' });
    }, 10_000);
    return () => {
      for (const name of names) window.removeEventListener(name, touch);
      window.clearInterval(timer);
    };
  }, [current.state]);

  const value = useMemo(() => ({ current, signIn, signOut }), [current, signIn, signOut]);
  return <Context.Provider value={value}>{children}</Context.Provider>;
}

export function useSessionApi(): SessionApi {
  const value = useContext(Context);
  if (!value) throw new Error('no session provider');
  return value;
}

const kept: { session: Session | null } = { session: null };

/** The session of a signed-in page. During a second login the last one stays, so that pages stay mounted. */
export function useSession(): Session {
  const { current } = useSessionApi();
  if (current.state === 'in') kept.session = current.session;
  if (!kept.session) throw new Error('not signed in');
  return kept.session;
}

/** Whether this session may write: an admin, and a source that takes writes. */
export function useWritable(): boolean {
  const session = useSession();
  return session.writable && session.role === 'admin';
}
