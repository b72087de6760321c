/** Server-sent events read by `fetch`, because `EventSource` cannot send the key header. */
import { ApiError, address, keyHeaders, tell, type ErrorBody, type Query } from './client';

export interface StreamEvent {
  event: string;
  data: string;
}

/** Longest line and longest event kept, in characters; a longer one ends the stream with an error. */
const MAX_EVENT = 1_000_000;

/** Splits text into events; feed it pieces as they come. */
export class EventParser {
  private rest = '';
  private event = '';
  private data: string[] = [];
  private size = 0;

  feed(text: string): StreamEvent[] {
    const out: StreamEvent[] = [];
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? '';
    if (this.rest.length > MAX_EVENT) throw new Error('an event of the stream is too long');
    for (const line of lines) {
      if (line === '') {
        if (this.data.length > 0) out.push({ event: this.event || 'message', data: this.data.join('\n') });
        this.event = '';
        this.data = [];
        this.size = 0;
        continue;
      }
      if (line.startsWith(':')) continue;
      const colon = line.indexOf(':');
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'event') this.event = value;
      else if (field === 'data') {
        this.size += value.length;
        if (this.size > MAX_EVENT) throw new Error('an event of the stream is too long');
        this.data.push(value);
      }
    }
    return out;
  }
}

export type StreamState = 'opening' | 'open' | 'waiting' | 'hidden' | 'closed' | 'refused';

export interface StreamOptions {
  query?: Query;
  onEvent: (name: string, data: unknown) => void;
  onState?: (state: StreamState, error?: ApiError) => void;
}

/** A hidden page keeps its stream this long, because switching tabs back and forth is common. */
const HIDDEN_MS = 10_000;
/** Pauses between attempts; after the last one the pause stays the same. */
const PAUSES_MS = [500, 1000, 2000, 5000, 5000, 5000, 30_000];

/** Opens a stream and keeps it open; the answer of this call closes it for good. */
export function openStream(path: string, options: StreamOptions): () => void {
  let abort: AbortController | null = null;
  let timer: number | undefined;
  let hiddenTimer: number | undefined;
  let failures = 0;
  let closed = false;

  const state = (value: StreamState, error?: ApiError) => options.onState?.(value, error);

  async function run() {
    const mine = new AbortController();
    abort = mine;
    state('opening');
    try {
      const response = await fetch(address(path, options.query), {
        headers: { ...keyHeaders(), Accept: 'text/event-stream' },
        signal: mine.signal, credentials: 'omit', cache: 'no-store',
      });
      if (!response.ok || !response.body) {
        const body = (await response.json().catch(() => ({}))) as ErrorBody;
        const error = new ApiError(response.status, body);
        tell(response.status, null);
        if (response.status < 500 && response.status !== 429) {
          closed = true;
          state('refused', error);
          return;
        }
        throw error;
      }
      tell(response.status, null);
      state('open');
      failures = 0;
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      const parser = new EventParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        for (const event of parser.feed(decoder.decode(value, { stream: true }))) deliver(event);
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      failures += 1;
      if (!(error instanceof ApiError)) tell(0, null);
      state('waiting', error instanceof ApiError ? error : new ApiError(0, {}));
    }
    if (!closed && !mine.signal.aborted) {
      timer = window.setTimeout(run, PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)]);
    }
  }

  function deliver(event: StreamEvent) {
    let data: unknown;
    try {
      data = JSON.parse(event.data);
    } catch {
      return; // an event that is no JSON is of a newer server
    }
    options.onEvent(event.event, data);
  }

  function stop() {
    window.clearTimeout(timer);
    abort?.abort();
    abort = null;
  }

  function onVisibility() {
    window.clearTimeout(hiddenTimer);
    if (document.hidden) {
      hiddenTimer = window.setTimeout(() => {
        stop();
        state('hidden');
      }, HIDDEN_MS);
    } else if (!abort && !closed) void run();
  }

  document.addEventListener('visibilitychange', onVisibility);
  if (!document.hidden) void run();
  return () => {
    closed = true;
    document.removeEventListener('visibilitychange', onVisibility);
    window.clearTimeout(hiddenTimer);
    stop();
    state('closed');
  };
}
