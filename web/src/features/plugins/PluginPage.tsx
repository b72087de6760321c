/** One plugin: its documentation, its schema, where it is used, what it costs, and the way to configure it. */
import { Suspense, lazy } from 'react';
import { useQuery } from '@tanstack/react-query';
import { ApiError, get } from '../../api/client';
import { keys } from '../../api/keys';
import { pluginInfos } from '../../forms/catalogue';
import type { PluginPage as Details } from '../../api/types';
import { usePoll } from '../../app/events';
import { useWritable } from '../../app/session';
import { objectPath, usePath, useSearch, useSetSearch } from '../../app/url';
import type { Json } from '../../forms/json';
import { Tabs } from '../../ui/Button';
import { Go } from '../../ui/Go';
import { Page } from '../../ui/Page';
import { Empty, Problem, Skeleton } from '../../ui/Problem';
import { count, nanos, percent, plainLine } from '../../ui/format';
import { Markdown } from './Markdown';
import { schemaRows } from './schemaRows';
import './plugins.css';

const Configure = lazy(() => import('./Configure'));

type Tab = 'documentation' | 'schema' | 'configure' | 'used-by' | 'cost';

export default function PluginPage() {
  const { name = '' } = usePath();
  const params = useSearch();
  const setSearch = useSetSearch();
  const writable = useWritable();
  const poll = usePoll(15_000);
  const details = useQuery({ queryKey: keys.plugin(name), queryFn: ({ signal }) => get<Details>(`weir/plugins/${encodeURIComponent(name)}`, undefined, signal), refetchInterval: poll, retry: false });
  const infos = useQuery({ queryKey: keys.pluginSchemas, queryFn: ({ signal }) => pluginInfos(signal), staleTime: Number.POSITIVE_INFINITY });
  const plugin = details.data;
  const info = infos.data?.[name];
  const options: { value: Tab; label: string }[] = [
    { value: 'documentation', label: 'Documentation' }, { value: 'schema', label: 'Fields' },
    ...(writable ? [{ value: 'configure' as const, label: 'Configure' }] : []),
    { value: 'used-by', label: plugin ? `Used by ${count(plugin.used_by)}` : 'Used by' }, { value: 'cost', label: 'Cost' },
  ];
  const tab = options.some((option) => option.value === params.tab) ? (params.tab as Tab) : 'documentation';
  if (details.error instanceof ApiError && details.error.status === 404) {
    return <Page title={name}><section className="card"><Empty title={`This build has no plugin ${name}. Objects that name it keep its configuration; it is edited in their source.`} action={<Go className="btn btn-plain" to="/routes" search={{ q: `plugin:${name}` }}>Routes that name it</Go>} /></section></Page>;
  }
  return (
    <Page title={name} heading={name} note={plugin ? `${plugin.group}, ${plugin.phases.join(', ')}, priority ${plugin.priority}` : undefined}>
      {details.error ? <Problem title="The plugin could not be loaded." error={details.error} retry={() => void details.refetch()} /> : null}
      {plugin ? <p className="dim">{plainLine(plugin.summary)}</p> : null}
      <Tabs label="Views of the plugin" value={tab} options={options} onChange={(next) => setSearch({ tab: next }, true)} panel="plugin-panel" />
      <div id="plugin-panel" role="tabpanel" aria-label={options.find((option) => option.value === tab)?.label}>
        {!plugin && !details.error ? <Skeleton lines={6} /> : null}
        {plugin && tab === 'documentation' ? <section className="card"><Markdown text={plugin.docs} skipTitle /></section> : null}
        {tab === 'schema' ? (
          <div className="steps">
            <SchemaTable title="Configuration" schema={info?.schema} />
            {info?.consumer_schema ? <SchemaTable title="In a consumer" schema={info.consumer_schema} /> : null}
            {info?.metadata_schema ? <SchemaTable title="Metadata, for all uses" schema={info.metadata_schema} /> : null}
          </div>
        ) : null}
        {tab === 'configure' && plugin ? <Suspense fallback={<Skeleton lines={6} />}><Configure name={name} info={info} scopes={plugin.scopes} /></Suspense> : null}
        {tab === 'used-by' && plugin ? (
          <section className="card" aria-label="Used by">
            {plugin.used.length === 0 ? <Empty title="No object uses it." action={writable ? <Go className="btn btn-main" to={`/plugins/${encodeURIComponent(name)}`} search={{ tab: 'configure' }}>Configure it</Go> : undefined} /> : <ul className="used-list">{plugin.used.slice(0, 200).map((use) => <li key={use.kind + use.id}><span className="quiet">{use.kind.replace(/_/g, ' ')}</span><Go to={objectPath(use.kind, use.id)} search={{ at: `/plugins/${name}` }}>{use.id}</Go></li>)}</ul>}
            {plugin.used_by > Math.min(200, plugin.used.length) ? <p className="quiet" style={{ padding: 14 }}>and {count(plugin.used_by - Math.min(200, plugin.used.length))} more: <Go to="/routes" search={{ q: `plugin:${name}` }}>routes with it</Go></p> : null}
          </section>
        ) : null}
        {tab === 'cost' && plugin ? <Cost plugin={plugin} /> : null}
      </div>
    </Page>
  );
}

function SchemaTable({ title, schema }: { title: string; schema: Json | undefined }) {
  if (schema === undefined) return <Skeleton lines={4} />;
  const rows = schemaRows(schema);
  return (
    <section className="card" aria-label={title}>
      <div className="card-head"><h2>{title}</h2></div>
      {rows.length === 0 ? <p className="quiet" style={{ padding: 14 }}>It takes no fields.</p> : (
        <div className="schema-table" tabIndex={0} role="region" aria-label={`Fields: ${title}`}><table className="table">
          <thead><tr><th>Field</th><th>Type</th><th>Default</th><th>Allowed</th><th>Meaning</th></tr></thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.path}>
                <td><code className={row.needed ? 'strong' : undefined}>{row.path}</code>{row.needed ? <span className="quiet"> needed</span> : null}{row.secret ? <span className="quiet"> secret</span> : null}</td>
                <td className="dim">{row.type}</td>
                <td><code>{row.fallback}</code></td>
                <td className="dim">{row.rule}</td>
                <td>{row.text}</td>
              </tr>
            ))}
          </tbody>
        </table></div>
      )}
    </section>
  );
}

function Cost({ plugin }: { plugin: Details }) {
  const live = plugin.live;
  return (
    <section className="card" aria-label="Cost">
      <dl className="costs">
        <div><dt className="quiet">p50 a call</dt><dd>{live ? nanos(live.p50_ns) : nanos(plugin.cost_ns)}</dd></div>
        <div><dt className="quiet">p99 a call</dt><dd>{live ? nanos(live.p99_ns) : '–'}</dd></div>
        <div><dt className="quiet">Share of CPU</dt><dd>{live ? percent(live.share, 1) : '–'}</dd></div>
        <div><dt className="quiet">Calls timed</dt><dd>{live ? count(live.calls) : '–'}</dd></div>
      </dl>
      <p className="quiet" style={{ padding: '0 16px 14px' }}>{live ? '1 of 128 requests is timed while this page is open.' : plugin.cost_ns !== null ? 'Measured for the release; no request called it since this page was opened.' : 'No figure is known yet.'}</p>
    </section>
  );
}
