/** Calls of the Admin API: the key as a header, answers as JSON, refusals as `ApiError`. */
import { readExact, writeExact } from './exact';
import { readKey } from './key';

export const ADMIN = '/apisix/admin/';

export interface ErrorBody {
  error_msg?: string;
  at?: number;
  expected?: string[];
  [more: string]: unknown;
}

/** An answer with a status of 400 or more; status 0 is a connection that failed. */
export class ApiError extends Error {
  readonly status: number;
  readonly body: ErrorBody;
  constructor(status: number, body: ErrorBody) {
    super(body.error_msg ?? (status === 0 ? 'The instance cannot be reached.' : `The instance answered ${status}.`));
    this.status = status;
    this.body = body;
  }
  get error_msg(): string {
    return this.message;
  }
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface Options {
  query?: Query;
  /** Sent as JSON, or as it is when it is a string (`type` says of which kind). */
  body?: unknown;
  type?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** The answer holds documents, whose numbers keep their digits (`exact.ts`). */
  exact?: boolean;
  /** Key to use in place of the stored one (the login page tries a key before it is kept). */
  key?: string | null;
}

export interface Answer<T> {
  data: T;
  status: number;
  etag: string | null;
  revision: number | null;
}

type Listener = (status: number, revision: number | null) => void;
const listeners = new Set<Listener>();

/** Tells of every answer: its status (0: no connection) and the revision in `X-Weir-Revision`. */
export function onAnswer(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function tell(status: number, revision: number | null): void {
  for (const listener of listeners) listener(status, revision);
}

/** The address of an Admin API path with its query; an empty or null parameter is left out. */
export function address(path: string, query?: Query): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== '') params.set(name, String(value));
  }
  const text = params.toString();
  return (path.startsWith('/') ? path : ADMIN + path) + (text ? `?${text}` : '');
}

export function keyHeaders(key: string | null = readKey()): Record<string, string> {
  return key ? { 'X-API-KEY': key } : {};
}

async function bodyOf(response: Response, exact: boolean): Promise<unknown> {
  const text = await response.text();
  if (!text) return null;
  try {
    return exact ? readExact(text) : JSON.parse(text);
  } catch {
    return { error_msg: text.slice(0, 2000) };
  }
}

export async function request<T>(method: string, path: string, options: Options = {}): Promise<Answer<T>> {
  const headers: Record<string, string> = { ...keyHeaders(options.key), ...options.headers };
  let body: string | undefined;
  if (options.body !== undefined) {
    const isText = typeof options.body === 'string';
    body = isText ? (options.body as string) : writeExact(options.body);
    headers['Content-Type'] = options.type ?? (isText ? 'application/yaml' : 'application/json');
  }
  let response: Response;
  try {
    response = await fetch(address(path, options.query), {
      method, headers, body, signal: options.signal, credentials: 'omit', cache: 'no-store', redirect: 'error',
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    tell(0, null);
    throw new ApiError(0, {});
  }
  const revision = Number(response.headers.get('X-Weir-Revision') ?? NaN);
  tell(response.status, Number.isFinite(revision) ? revision : null);
  const data = await bodyOf(response, options.exact === true);
  if (!response.ok) throw new ApiError(response.status, (data ?? {}) as ErrorBody);
  return {
    data: data as T,
    status: response.status,
    etag: response.headers.get('ETag'),
    revision: Number.isFinite(revision) ? revision : null,
  };
}

export async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return (await request<T>('GET', path, { query, signal })).data;
}

/** A `get` whose answer holds documents. */
export async function getExact<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return (await request<T>('GET', path, { query, signal, exact: true })).data;
}

export async function post<T>(path: string, body?: unknown, query?: Query, signal?: AbortSignal): Promise<T> {
  return (await request<T>('POST', path, { body, query, signal })).data;
}
