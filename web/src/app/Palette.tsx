/** The palette: objects, pages, commands, the last pages, and the right page for a pasted curl line, URL, request id or revision. */
import { useEffect, useId, useMemo, useRef, useState, type ReactNode } from 'react';
import { useMantineColorScheme } from '@mantine/core';
import { IconArrowRight, IconClock, IconCommand, IconPlus, IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { get } from '../api/client';
import { isCurl, parseCurl } from '../api/curl';
import { keys } from '../api/keys';
import type { Search } from '../api/types';
import { ModalDialog } from '../ui/ModalDialog';
import { handQuestion } from './handoff';
import { PageIcon } from './icons';
import { PAGES, pageOfKind } from './pages';
import { visited } from './prefs';
import { useSession, useSessionApi, useWritable } from './session';
import { go, objectPath } from './url';
import './palette.css';

interface Item {
  key: string;
  group: string;
  icon: ReactNode;
  label: string;
  hint?: string;
  run: () => void;
}

/** The page for a pasted text, if it is one of the known things. */
export function pasted(text: string): { label: string; path: string; question?: { method: string; url: string; headers: [string, string][]; bodyBytes?: number } } | null {
  const value = text.trim();
  if (isCurl(value)) {
    try {
      const { method, url, headers, bodyBytes } = parseCurl(value);
      return { label: `Explain ${method} ${url}`, path: '/explain', question: { method, url, headers, bodyBytes: bodyBytes ?? undefined } };
    } catch {
      return null;
    }
  }
  if (/^https?:\/\/\S+$/i.test(value)) return { label: `Explain GET ${value}`, path: '/explain', question: { method: 'GET', url: value, headers: [] } };
  const revision = /^r(\d{1,12})$/.exec(value);
  if (revision) return { label: `Open revision ${revision[1]}`, path: `/changes/${revision[1]}` };
  if (/^[0-9A-Za-z_-]{14,64}$/.test(value) && /\d/.test(value)) return { label: `Find request ${value}`, path: `/traffic?request=${encodeURIComponent(value)}` };
  return null;
}

function usePause(value: string, ms: number): string {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setLate(value), ms);
    return () => window.clearTimeout(timer);
  }, [value, ms]);
  return late;
}

function useItems(text: string): { items: Item[]; more: boolean; busy: boolean } {
  const session = useSession();
  const { signOut } = useSessionApi();
  const writable = useWritable();
  const { setColorScheme } = useMantineColorScheme();
  const q = usePause(text.trim(), 80);
  const found = useQuery({
    queryKey: keys.search(q),
    queryFn: ({ signal }) => get<Search>('weir/search', { q, limit: 20 }, signal),
    enabled: q.length > 0 && !isCurl(q),
    // The first search after a change of a large configuration ends while the instance still makes its lists.
    refetchInterval: (query) => (query.state.data?.more && query.state.data.list.length === 0 ? 400 : false),
    placeholderData: (old) => (q.length > 0 ? old : undefined),
  });
  const items = useMemo(() => {
    const word = text.trim().toLowerCase();
    const has = (label: string) => word === '' || label.toLowerCase().includes(word);
    const list: Item[] = [];
    const paste = pasted(text);
    if (paste) {
      list.push({
        key: 'paste', group: 'Pasted', icon: <IconArrowRight size={16} stroke={1.75} />, label: paste.label,
        run: () => {
          if (paste.question) handQuestion(paste.question);
          go(paste.path, paste.question ? { method: paste.question.method, url: paste.question.url } : {});
        },
      });
    }
    if (word === '') {
      for (const each of visited()) list.push({ key: `v${each.path}`, group: 'Last visited', icon: <IconClock size={16} stroke={1.75} />, label: each.label, run: () => go(each.path) });
    }
    for (const hit of word === '' || paste?.question ? [] : (found.data?.list ?? [])) {
      list.push({
        key: `o${hit.kind}/${hit.id}`, group: pageOfKind(hit.kind)?.label ?? hit.kind, icon: <PageIcon path={`/${hit.kind}`} />,
        label: hit.name ?? hit.id, hint: hit.hint ?? hit.id, run: () => go(objectPath(hit.kind, hit.id)),
      });
    }
    for (const page of PAGES.filter((each) => has(each.label))) {
      list.push({ key: `p${page.path}`, group: 'Pages', icon: <PageIcon path={page.path} />, label: page.label, hint: page.letter ? `g ${page.letter}` : undefined, run: () => go(page.path) });
    }
    const command = (label: string, run: () => void, icon: ReactNode = <IconCommand size={16} stroke={1.75} />) => {
      if (has(label)) list.push({ key: `c${label}`, group: 'Commands', icon, label, run });
    };
    if (writable) {
      for (const page of PAGES.filter((each) => each.one && each.kind && session.kinds.includes(each.kind))) {
        command(`New ${page.one}`, () => go(`${page.path}/new`), <IconPlus size={16} stroke={1.75} />);
      }
      command('Apply a file', () => go('/changes', { apply: '1' }));
      command('Roll back to …', () => go('/changes'));
    }
    command('Explain a pasted curl', () => go('/explain', { paste: '1' }));
    command('Light theme', () => setColorScheme('light'));
    command('Dark theme', () => setColorScheme('dark'));
    command('Theme as the system', () => setColorScheme('auto'));
    command('Sign out', () => signOut());
    return list.slice(0, 60);
  }, [text, found.data, session.kinds, writable, setColorScheme, signOut]);
  return { items, more: found.data?.more ?? false, busy: found.isFetching };
}

export default function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const { items, more, busy } = useItems(text);
  const list = useRef<HTMLDivElement>(null);
  const id = useId();
  const chosen = Math.min(at, Math.max(0, items.length - 1));
  useEffect(() => {
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }, [chosen, items]);
  const run = (item: Item | undefined) => {
    if (!item) return;
    onClose();
    item.run();
  };
  return (
    <ModalDialog label="Palette" high onClose={onClose}>
      <div className="palette">
        <div className="palette-field">
          <IconSearch size={16} stroke={1.75} aria-hidden="true" />
          <input
            value={text} placeholder="Search, jump, or paste a curl line, a URL, a request id, r4126" aria-label="Search, jump or run a command"
            role="combobox" aria-expanded="true" aria-controls={`${id}-list`} aria-activedescendant={items[chosen] ? `${id}-${chosen}` : undefined}
            autoComplete="off" spellCheck={false}
            onChange={(event) => {
              setText(event.target.value);
              setAt(0);
            }}
            onKeyDown={(event) => {
              if (event.key === 'ArrowDown') setAt(Math.min(chosen + 1, items.length - 1));
              else if (event.key === 'ArrowUp') setAt(Math.max(0, chosen - 1));
              else if (event.key === 'Enter') run(items[chosen]);
              else return;
              event.preventDefault();
            }}
          />
        </div>
        <div className="palette-list" id={`${id}-list`} role="listbox" aria-label="Results" aria-busy={busy} ref={list}>
          {items.map((item, index) => (
            <div key={item.key} role="presentation">
              {items[index - 1]?.group !== item.group && <div className="palette-group" role="presentation">{item.group}</div>}
              <div
                id={`${id}-${index}`} role="option" aria-selected={index === chosen} className="palette-item"
                onMouseMove={() => setAt(index)} onClick={() => run(item)}
              >
                {item.icon}
                <span className="palette-label ellipsis">{item.label}</span>
                {item.hint && <span className="palette-hint ellipsis">{item.hint}</span>}
              </div>
            </div>
          ))}
          {items.length === 0 && <p className="palette-none">{busy ? 'Searching' : 'Nothing found.'}</p>}
          {more && <p className="palette-none">There are more; type more of the name.</p>}
        </div>
      </div>
    </ModalDialog>
  );
}
