/** The revisions, newest first, with one of them beside the list; files are applied and revisions compared here. */
import { useMemo } from 'react';
import { useInfiniteQuery } from '@tanstack/react-query';
import { IconArrowsDiff, IconUpload } from '@tabler/icons-react';
import { ApiError, get } from '../../api/client';
import { keys } from '../../api/keys';
import type { Versions } from '../../api/types';
import { useSession, useWritable } from '../../app/session';
import { usePath, useSearch, useSetSearch } from '../../app/url';
import { Button } from '../../ui/Button';
import { Go } from '../../ui/Go';
import { Page } from '../../ui/Page';
import { Empty, Problem, Skeleton } from '../../ui/Problem';
import { QueryField } from '../../ui/QueryField';
import { Ago } from '../../ui/Values';
import { ApplyFile } from './ApplyFile';
import { Compare } from './Compare';
import { FIELDS, QueryMistake, SOURCES, readCompare, readQuery } from './query';
import { Revision, whatOf } from './Revision';
import './changes.css';

/** Revisions of one page of the list. */
const PAGE = 100;

export default function ChangesPage() {
  const { version } = usePath();
  const params = useSearch();
  const setSearch = useSetSearch();
  const session = useSession();
  const writable = useWritable();
  const q = params.q ?? '';
  const compare = readCompare(params.compare);
  const read = useMemo(() => {
    try {
      // The time is cut to the minute, so that the same filter is the same question for a while.
      return { query: readQuery(q, Math.floor(Date.now() / 60_000) * 60_000), error: null };
    } catch (mistake) {
      return { query: null, error: mistake instanceof QueryMistake ? new ApiError(400, { error_msg: mistake.message, at: mistake.at, expected: FIELDS }) : mistake };
    }
  }, [q]);
  const query = read.query;
  const list = useInfiniteQuery({
    queryKey: keys.versions({ by: query?.by, key: query?.key, since: query?.since, page: PAGE }),
    queryFn: ({ pageParam, signal }) => get<Versions>('weir/versions', { limit: PAGE, before: pageParam, by: query?.by, key: query?.key, since: query?.since }, signal),
    initialPageParam: null as number | null,
    getNextPageParam: (last) => {
      const end = last.versions.at(-1)?.version;
      return last.versions.length === PAGE && end !== undefined && end > last.oldest ? end : undefined;
    },
    enabled: query !== null,
  });
  const first = list.data?.pages[0];
  const rows = (list.data?.pages ?? []).flatMap((page) => page.versions).filter((row) => !query?.source || row.source === query.source);
  const chosen = version !== undefined && /^\d+$/.test(version) ? Number(version) : null;
  const applying = params.apply === '1' && writable;
  return (
    <Page title={chosen !== null ? `Changes r${chosen}` : 'Changes'} heading="Changes" note={first ? `r${first.revision} in force, kept back to r${first.oldest}` : undefined} actions={
      <>
        <Button icon={<IconArrowsDiff size={16} stroke={1.75} aria-hidden />} disabled={!first} onClick={() => setSearch({ compare: compare ? null : `${first?.versions[1]?.version ?? first?.oldest}..${first?.revision}`, apply: null }, true)}>Compare two</Button>
        {writable ? <Button look="main" icon={<IconUpload size={16} stroke={1.75} aria-hidden />} onClick={() => setSearch({ apply: applying ? null : 1, compare: null }, true)}>Apply a file</Button> : null}
      </>
    }>
      {session.source === 'file' ? <p className="dim">The configuration comes from a file; its longer history is in your version control.</p> : null}
      {applying ? <ApplyFile onClose={() => setSearch({ apply: null })} /> : null}
      {compare ? <Compare key={`${compare.from}-${compare.to}`} from={compare.from} to={compare.to} onClose={() => setSearch({ compare: null })} /> : null}
      <QueryField value={q} onChange={(next, commit) => setSearch({ q: next }, commit)} fields={FIELDS} values={(field) => field === 'source' ? SOURCES : field === 'since' ? ['1h', '1d', '7d', '30d'] : field === 'by' ? [...new Set(rows.map((row) => row.by ?? ''))].filter(Boolean) : []} error={read.error ?? list.error} placeholder="by:, since:7d, key:routes/shop, source:" label="Filter revisions" />
      {list.error && !(list.error instanceof ApiError && list.error.status === 400) ? <Problem title="The revisions could not be loaded." error={list.error} retry={() => void list.refetch()} /> : null}
      <div className="changes-panes" data-one={chosen === null || undefined}>
        <section className="card" aria-label="Revisions">
          {list.isPending && query !== null ? <Skeleton lines={6} /> : rows.length === 0 ? (
            <Empty title={q ? 'No kept revision matches this filter.' : 'No revision yet: nothing was changed since this instance keeps its history.'} action={q ? <Button onClick={() => setSearch({ q: null })}>Clear the filter</Button> : undefined} />
          ) : (
            <ul className="changes-list">
              {rows.map((row) => (
                <li key={row.version}>
                  <Go className="changes-row" to={`/changes/${row.version}`} search={{ q }} aria-current={row.version === chosen ? 'true' : undefined}>
                    <code>r{row.version}</code>
                    <span className="quiet changes-when"><Ago ms={row.at_ms} /></span>
                    <span className="strong changes-by">{row.by ?? 'unnamed'}</span>
                    <span className="dim changes-what">{whatOf(row)}</span>
                    <span className="quiet changes-count">{row.version === first?.revision ? 'in force' : ''}</span>
                  </Go>
                </li>
              ))}
            </ul>
          )}
          {list.hasNextPage ? <div className="changes-body"><Button disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>Older revisions</Button></div> : null}
        </section>
        {chosen !== null ? <Revision key={chosen} version={chosen} current={first?.revision} /> : null}
      </div>
    </Page>
  );
}
