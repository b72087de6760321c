/** The list of a kind: filter, facets, a grid of only the rows in view, a bar for selected objects. */
import { useCallback, useMemo, useState } from 'react';
import { Menu } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { IconCode, IconColumns, IconPlus } from '@tabler/icons-react';
import { ApiError } from '../../api/client';
import type { ObjectRow } from '../../api/types';
import { usePoll } from '../../app/events';
import { useWritable } from '../../app/session';
import { useLetters } from '../../app/shortcuts';
import { go, objectPath, usePath, useSearch, useSetSearch } from '../../app/url';
import { Button } from '../../ui/Button';
import { Go } from '../../ui/Go';
import { Page } from '../../ui/Page';
import { Empty, Problem, Skeleton } from '../../ui/Problem';
import { QueryField } from '../../ui/QueryField';
import { Ago } from '../../ui/Values';
import { count } from '../../ui/format';
import { BulkBar } from './BulkBar';
import { Facets } from './Facets';
import { Grid } from './Grid';
import { Peek } from './Peek';
import { kindOf } from './kinds';
import type { Kind } from './kinds/types';
import { nextSort, readList, writeColumns, writeSelected } from './listState';
import { saveFile } from './exporting';
import { loadMany, memberOf } from './sets';
import { useObjects } from './useObjects';
import './objects.css';

/** Most objects that one export reads; more is the task of `weir export`. */
const MOST_EXPORTED = 500;

export default function ListPage() {
  const { kind: name } = usePath();
  const kind = kindOf(name);
  if (!kind) return <Problem title="There is no such page." detail="The navigation at the left lists all pages." />;
  return <List key={kind.kind} kind={kind} />;
}

function List({ kind }: { kind: Kind }) {
  const params = useSearch();
  const setSearch = useSetSearch();
  const writable = useWritable();
  const phone = useMediaQuery('(max-width: 719px)', false, { getInitialValueInEffect: false });
  const list = useMemo(() => readList(kind, params), [kind, params]);
  const poll = usePoll(5_000);
  const objects = useObjects(kind.kind, list.q, list.sort, poll);
  const [active, setActive] = useState(-1);
  const [anchor, setAnchor] = useState(-1);
  const [selected, setSelectedState] = useState<ReadonlySet<string>>(() => new Set(list.selected));
  const [range, setRange] = useState<[number, number]>([0, 0]);
  const [note, setNote] = useState<string | null>(null);
  const [exporting, setExporting] = useState<unknown>(null);

  const select = useCallback((next: ReadonlySet<string>) => {
    setSelectedState(next);
    setSearch({ sel: writeSelected(next) });
  }, [setSearch]);
  const onSelect = useCallback((index: number, toHere: boolean) => {
    const next = new Set(selected);
    const first = toHere && anchor >= 0 ? Math.min(anchor, index) : index;
    const last = toHere && anchor >= 0 ? Math.max(anchor, index) : index;
    for (let at = first; at <= last; at += 1) {
      const id = objects.row(at)?.id;
      if (id === undefined) continue;
      if (toHere) next.add(id);
      else if (!next.delete(id)) next.add(id);
    }
    setAnchor(index);
    select(next);
  }, [selected, anchor, objects, select]);
  const open = useCallback((row: ObjectRow, tab?: string) => go(objectPath(kind.kind, row.id), { tab }), [kind]);
  const peek = (row: ObjectRow) => setSearch({ peek: list.peek === row.id ? null : row.id });
  const setQuery = (q: string, commit = false) => {
    setActive(-1);
    setSearch({ q }, commit);
  };

  useLetters((key, event) => {
    const row = objects.row(active);
    if (key === 'j') setActive(Math.min(objects.matched - 1, active + 1));
    else if (key === 'k') setActive(Math.max(0, active - 1));
    else if (key === 'Enter' && row && event.target === document.body) open(row);
    else if (key === ' ' && row && (event.target === document.body || (event.target as HTMLElement).id === 'main')) peek(row);
    else if (key.toLowerCase() === 'x' && row && writable) onSelect(active, event.shiftKey);
    else if (key === 'e' && row) open(row, 'form');
    else if (key === 'n' && writable) go(`/${kind.kind}/new`);
    else return false;
    return true;
  });

  const peeked = list.peek === null ? undefined : Array.from({ length: Math.min(objects.matched, 2000) }, (_, at) => objects.row(at)).find((row) => row?.id === list.peek);
  const exportAll = async () => {
    setExporting(null);
    try {
      const ids = Array.from({ length: Math.min(objects.matched, MOST_EXPORTED) }, (_, at) => objects.row(at)?.id).filter((id): id is string => id !== undefined);
      const found = await loadMany(kind.kind, ids);
      await saveFile(`${kind.kind}.yaml`, { [kind.kind]: [...found].map(([id, document]) => memberOf(kind.kind, id, document)) });
      if (objects.matched > ids.length) setNote(`The file has the first ${ids.length} of ${count(objects.matched)} objects.`);
    } catch (error) {
      setExporting(error);
    }
  };
  const values = (field: string) => field === 'state' ? ['in_force', 'last_good', 'out', 'off'] : field === 'method' ? ['GET', 'POST', 'PUT', 'DELETE', 'PATCH'] : Object.keys(objects.facets[field] ?? {});
  const badQuery = objects.error instanceof ApiError && objects.error.status === 400;
  const isEmpty = !objects.loading && objects.matched === 0 && objects.error === null && !objects.stale;
  return (
    <Page title={kind.label} full note={objects.loading ? undefined : <span className="list-count">{list.q ? `${count(objects.matched)} of ${count(objects.total)}` : count(objects.total)}</span>} actions={
      <>
        {phone ? null : <Button icon={<IconCode size={16} stroke={1.75} aria-hidden />} onClick={() => void exportAll()} disabled={objects.matched === 0}>Export</Button>}
        {writable ? <Go className="btn btn-main" to={`/${kind.kind}/new`} aria-label={`New ${kind.one}`}><IconPlus size={16} stroke={1.75} aria-hidden />{phone ? null : <span>New {kind.one}</span>}</Go> : null}
      </>
    }>
      <div className="list-tools">
        <QueryField value={list.q} onChange={setQuery} fields={kind.fields} values={values} error={objects.error} placeholder={kind.placeholder} label={`Filter ${kind.label.toLowerCase()}`} />
        {phone ? null : <Columns kind={kind} shown={list.columns.map((column) => column.id)} onChange={(ids) => setSearch({ cols: writeColumns(kind, ids) })} />}
      </div>
      <Facets kind={kind} q={list.q} matched={objects.matched} facets={objects.facets} onChange={(q) => setQuery(q, true)} />
      {objects.error !== null && !badQuery ? <Problem title={`The ${kind.label.toLowerCase()} could not be loaded.`} error={objects.error} retry={objects.refetch} /> : null}
      {exporting !== null ? <Problem title="The export failed." error={exporting} /> : null}
      {note ? <p className="quiet" role="status">{note}</p> : null}
      <section className="card list-card" aria-label={`List of ${kind.label.toLowerCase()}`}>
        {selected.size > 0 && writable ? (
          <BulkBar kind={kind} ids={[...selected]} onClear={() => select(new Set())} onDone={(message) => {
            setNote(message);
            select(new Set());
            objects.accept();
            objects.refetch();
          }} />
        ) : null}
        {objects.pending > 0 ? <div className="list-news" role="status"><span>{objects.pending} changed</span><Button look="bare" onClick={objects.accept}>Show</Button></div> : null}
        {objects.loading ? <Skeleton lines={12} /> : isEmpty ? (
          list.q ? (
            <Empty title={`None of the ${count(objects.total)} ${kind.label.toLowerCase()} matches this filter.`} action={<Button onClick={() => setQuery('', true)}>Clear the filter</Button>} />
          ) : (
            <Empty title={kind.empty} action={writable ? <Go className="btn btn-main" to={`/${kind.kind}/new`}>New {kind.one}</Go> : undefined} curl={`curl ${window.location.origin}/apisix/admin/${kind.kind}/${kind.example.id} -H "X-API-KEY: $KEY" -X PUT -d '${JSON.stringify(kind.example.body)}'`} />
          )
        ) : (
          <Grid kind={kind} count={objects.matched} row={objects.row} ensure={objects.ensure} columns={list.columns} sort={list.sort} onSort={(column) => setSearch({ sort: nextSort(list.sort, column) }, true)} active={active} onActive={setActive}
            selected={selected} onSelect={onSelect} onOpen={(row) => open(row)} onPeek={peek} onRange={(first, last) => setRange((old) => (old[0] === first && old[1] === last ? old : [first, last]))}
            onSelectAll={() => {
              const next = new Set<string>();
              if (selected.size === 0) for (let at = 0; at < Math.min(objects.matched, 500); at += 1) {
                const id = objects.row(at)?.id;
                if (id !== undefined) next.add(id);
              }
              select(next);
            }}
            phone={phone ?? false} dimmed={objects.stale} writable={writable} />
        )}
        <footer className="list-foot">
          <span>{objects.matched === 0 ? 'No rows' : `Rows ${count(range[0])} to ${count(range[1])} of ${count(objects.matched)}`}</span>
          <span className="list-keys" aria-hidden>
            <span><kbd className="kbd">J</kbd> <kbd className="kbd">K</kbd> move</span>
            <span><kbd className="kbd">Enter</kbd> open</span>
            <span><kbd className="kbd">Space</kbd> peek</span>
            {writable ? <span><kbd className="kbd">X</kbd> select</span> : null}
            {writable ? <span><kbd className="kbd">E</kbd> edit</span> : null}
          </span>
          <span>{objects.revision > 0 ? <>r{objects.revision} · refreshed <Ago ms={objects.at} /> ago</> : null}</span>
        </footer>
      </section>
      {peeked ? <Peek kind={kind} row={peeked} onClose={() => setSearch({ peek: null })} /> : null}
    </Page>
  );
}

function Columns({ kind, shown, onChange }: { kind: Kind; shown: string[]; onChange: (ids: string[]) => void }) {
  return (
    <Menu position="bottom-end" closeOnItemClick={false} transitionProps={{ duration: 0 }} width={200}>
      <Menu.Target><Button icon={<IconColumns size={16} stroke={1.75} aria-hidden />}>Columns</Button></Menu.Target>
      <Menu.Dropdown>
        {kind.columns.filter((column) => column.id !== 'state' && column.id !== 'name').map((column) => {
          const on = shown.includes(column.id);
          return <Menu.Item key={column.id} role="menuitemcheckbox" aria-checked={on} onClick={() => onChange(on ? shown.filter((id) => id !== column.id) : [...shown, column.id])}>{on ? '✓ ' : '  '}{column.label}</Menu.Item>;
        })}
      </Menu.Dropdown>
    </Menu>
  );
}
