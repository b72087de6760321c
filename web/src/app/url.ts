/** The address of the page: links, search parameters and navigation, all as plain strings. */
import { useCallback, useMemo } from 'react';
import { useParams, useRouterState } from '@tanstack/react-router';

export const BASE = '/ui';
export type Params = Record<string, string>;
type Change = Record<string, string | number | null | undefined>;

interface Historian {
  push: (href: string) => void;
  replace: (href: string) => void;
  readonly location: { pathname: string; search: string };
}
let history: Historian | null = null;

/** Gives navigation its router; the entry module calls this once. */
export function setHistory(value: Historian): void {
  history = value;
}

export function parseSearch(text: string): Params {
  return Object.fromEntries(new URLSearchParams(text));
}

/** Encodes parameters; characters that a query may hold stay readable (`q=host:*shop.example`). */
export function writeSearch(params: Change): string {
  const parts: string[] = [];
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === '') continue;
    const text = encodeURIComponent(String(value)).replace(/%(3A|2F|2C|40|3E|3C|3D)/g, decodeURIComponent).replace(/%20/g, '+');
    parts.push(`${encodeURIComponent(name)}=${text}`);
  }
  return parts.length ? `?${parts.join('&')}` : '';
}

/** The full path of a page: `href('/routes/shop', { tab: 'diff' })` is `/ui/routes/shop?tab=diff`. */
export function href(path: string, search: Change = {}): string {
  const [bare = '', own = ''] = path.split('?');
  return BASE + bare + writeSearch({ ...parseSearch(own), ...search });
}

/** The page of an object; identifiers may hold slashes (`vault/1`, `ana/credentials/c1`). */
export function objectPath(kind: string, id: string): string {
  return `/${kind}/${id.split('/').map(encodeURIComponent).join('/')}`;
}

export function go(path: string, search: Change = {}, replace = false): void {
  if (replace) history?.replace(href(path, search));
  else history?.push(href(path, search));
}

/** The search parameters of the address. */
export function useSearch(): Params {
  const text = useRouterState({ select: (state) => state.location.searchStr });
  return useMemo(() => parseSearch(text), [text]);
}

/** Changes search parameters of this page; null or '' removes one. Replaces the entry of the history unless `push`. */
export function useSetSearch(): (change: Change, push?: boolean) => void {
  return useCallback((change: Change, push = false) => {
    if (!history) return;
    const { pathname, search } = history.location;
    const next = pathname + writeSearch({ ...parseSearch(search), ...change });
    if (next === pathname + search) return;
    if (push) history.push(next);
    else history.replace(next);
  }, []);
}

/** Parameters of the path; `id` of an object page is the whole rest (`vault/1`). */
export function usePath(): { kind?: string; id?: string; name?: string; version?: string } {
  const params = useParams({ strict: false }) as Params;
  const id = params._splat ? `${params.id}/${params._splat}` : params.id;
  return { kind: params.kind, id, name: params.name, version: params.version };
}

export function usePathname(): string {
  return useRouterState({ select: (state) => state.location.pathname });
}
