/** The page of one object, for all kinds: form and source of one document, its difference, history and references. */
import { Suspense, lazy, useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useMediaQuery } from '@mantine/hooks';
import { Menu } from '@mantine/core';
import { IconDots } from '@tabler/icons-react';
import { get, request } from '../../api/client';
import { keys } from '../../api/keys';
import type { Usage, Versions } from '../../api/types';
import { useSession, useWritable } from '../../app/session';
import { go, objectPath, usePath, useSearch, useSetSearch } from '../../app/url';
import { Conflict } from '../../forms/Conflict';
import { DiffView } from '../../forms/DiffView';
import { FormContext } from '../../forms/env';
import { isObject, type Json, type JsonObject } from '../../forms/json';
import type { Syntax } from '../../forms/locate';
import { authorHeaders } from '../../forms/plan';
import { SchemaForm } from '../../forms/SchemaForm';
import { dropTyped, readTyped, useMistake, useSettled, useTyped } from '../../forms/typed';
import { Button, IconButton, Segmented, Tabs } from '../../ui/Button';
import { CopyButton } from '../../ui/CopyText';
import { Go } from '../../ui/Go';
import { StateText } from '../../ui/Mark';
import { Page } from '../../ui/Page';
import { Problem, Skeleton } from '../../ui/Problem';
import { CertificateTab } from './CertificateTab';
import { CredentialsTab } from './CredentialsTab';
import { DeleteDialog } from './DeleteDialog';
import { saveFile } from './exporting';
import { useFormEnvironment, usePluginFacts, usePluginInfos, useSchema } from './environment';
import { focusSoon } from './focusField';
import { HistoryTab } from './HistoryTab';
import { kindOf } from './kinds';
import { Since } from './kinds/cells';
import type { Kind } from './kinds/types';
import { NewId, idFault } from './NewId';
import { ReviewDialog } from './ReviewDialog';
import { adminPath, memberOf } from './sets';
import { useEditor } from './useEditor';
import { UsesTab } from './UsesTab';
import './objects.css';

const SourceEditor = lazy(() => import('../../forms/SourceEditor'));
const Endpoints = lazy(async () => ({ default: (await import('../upstreams/Endpoints')).Endpoints }));
const Topology = lazy(async () => ({ default: (await import('../upstreams/Topology')).Topology }));

const CREDENTIAL = /^([^/]+)\/credentials\/([^/]+)$/;

export default function ObjectPage() {
  const { kind: name, id = '' } = usePath();
  const params = useSearch();
  const credential = name === 'consumers' ? CREDENTIAL.exec(id) : null;
  const kind = kindOf(credential ? 'credentials' : name);
  if (!kind) return <Problem title="There is no such page." detail="The navigation at the left lists all pages." />;
  const isNew = credential ? credential[2] === 'new' : id === 'new';
  return <ObjectEditor key={`${name}/${id}/${params.from ?? ''}`} kind={kind} collection={name as string} id={isNew ? null : id} parent={credential?.[1] ?? null} from={isNew ? params.from ?? null : null} />;
}

type Tab = 'endpoints' | 'topology' | 'credentials' | 'certificate' | 'form' | 'source' | 'diff' | 'history' | 'used-by';

function ObjectEditor({ kind, collection, id, parent, from }: { kind: Kind; collection: string; id: string | null; parent: string | null; from: string | null }) {
  const session = useSession();
  const writable = useWritable();
  const client = useQueryClient();
  const params = useSearch();
  const setSearch = useSetSearch();
  const wide = useMediaQuery('(min-width: 1100px)', true, { getInitialValueInEffect: false });
  const infos = usePluginInfos();
  const facts = usePluginFacts();
  const [newId, setNewId] = useState(kind.kind === 'secrets' ? 'vault/' : '');
  const { schema, error: schemaError } = useSchema(kind, id ?? newId, infos.data);
  const plugins = infos.data ?? NO_PLUGINS;
  const draftKey = `${collection}/${id ?? `${parent ? `${parent}/credentials/` : ''}new`}`;
  const [syntax, setSyntax] = useState<Syntax>(() => (readTyped(`${draftKey}#yaml`) ? 'yaml' : 'json'));
  // A text that does not parse: of the source, whose document the form then cannot change, or of one field.
  const broken = useTyped(`${draftKey}#${syntax}`);
  const mistake = useMistake(`${draftKey}#`);
  const locked = useSettled(broken !== null);
  const editor = useEditor(kind, id, from, infos.data, schema, draftKey, id ?? placeOfNew(kind, parent, newId));
  const env = useFormEnvironment(kind, `${draftKey}#field`, !writable || locked, editor.faults, plugins, facts);
  const usage = useQuery({ queryKey: keys.usage(collection, id ?? ''), queryFn: ({ signal }) => get<Usage>(`weir/usage/${adminPath(collection, id ?? '')}`, undefined, signal), enabled: id !== null, retry: false });
  const last = useQuery({ queryKey: keys.versions({ key: `${collection}/${id}`, limit: 1 }), queryFn: ({ signal }) => get<Versions>('weir/versions', { key: `${collection}/${id ?? ''}`, limit: 1 }, signal), enabled: id !== null, retry: false });
  const hidden = useMemo(() => [...kind.hide, ...SERVER_FIELDS], [kind]);
  const [review, setReview] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const [saved, setSaved] = useState<string | null>(null);
  const [actionError, setActionError] = useState<unknown>(null);
  const [reveal, setReveal] = useState<{ pointer: string; at: number } | null>(null);

  const tabs = useMemo(() => {
    const own = (id === null ? [] : kind.tabs ?? []).map((name) => ({ value: name as Tab, label: LABELS[name] }));
    const shared: { value: Tab; label: string }[] = [{ value: 'form', label: 'Form' }, { value: 'source', label: 'Source' }, { value: 'diff', label: editor.dirty && editor.changes.length > 0 ? `Diff · ${editor.changes.length}` : 'Diff' }];
    if (id === null) return shared;
    return [...own, ...shared, { value: 'history' as Tab, label: 'History' }, { value: 'used-by' as Tab, label: usage.data ? `Used by ${usage.data.total}` : 'Used by' }];
  }, [kind, id, editor.dirty, editor.changes.length, usage.data]);
  const asked = params.tab as Tab | undefined;
  const tab: Tab = tabs.some((one) => one.value === asked) ? (asked as Tab) : tabs[0]?.value ?? 'form';
  const setTab = useCallback((next: Tab) => setSearch({ tab: next, rev: null }, true), [setSearch]);

  const target = id ?? (kind.kind === 'consumers' ? String((editor.document as JsonObject).username ?? '') : parent ? `${parent}/credentials/${newId}` : newId);
  const badId = id === null ? (kind.kind === 'consumers' ? (target === '' ? 'needed' : null) : idFault(kind, newId)) : null;
  const canReview = writable && editor.ready && editor.dirty && mistake === null && badId === null && !editor.conflict;
  const openReview = useCallback(() => canReview && setReview(true), [canReview]);

  const at = useRef(0);
  const showFault = useCallback((pointer: string) => {
    if (tab !== 'source' && tab !== 'form') setTab('form');
    focusSoon(pointer);
    setReveal({ pointer, at: Date.now() });
  }, [tab, setTab]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 's') {
        event.preventDefault();
        openReview();
      } else if (event.altKey && /^[1-9]$/.test(event.key) && tabs[Number(event.key) - 1]) {
        event.preventDefault();
        setTab((tabs[Number(event.key) - 1] as { value: Tab }).value);
      } else if (event.key === 'F8' && editor.faults.length > 0) {
        event.preventDefault();
        showFault(editor.faults[at.current % editor.faults.length]?.pointer ?? '');
        at.current += 1;
      }
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [openReview, tabs, setTab, editor.faults, showFault]);

  // "Open at the field" of the fault list: once, when the form is there.
  const aimed = useRef(false);
  useEffect(() => {
    if (!editor.ready || aimed.current || !params.at) return;
    aimed.current = true;
    showFault(params.at);
  }, [editor.ready, params.at, showFault]);

  const save = async () => {
    const done = await editor.save(target);
    if (!done.ok) {
      if (editor.conflict) setReview(false);
      return;
    }
    setReview(false);
    setSaved(done.revision === null ? 'Saved.' : `Saved as r${done.revision}.`);
    if (id === null) go(objectPath(collection, done.id), {}, true);
    else if (tab === 'diff') setTab('form');
  };
  useEffect(() => {
    if (editor.conflict) setReview(false);
  }, [editor.conflict]);

  const discard = () => {
    dropTyped(`${draftKey}#`);
    editor.discard();
  };

  const status = (editor.base as JsonObject).status;
  const toggle = async () => {
    if (id === null) return;
    setActionError(null);
    try {
      const { revision } = await request('PATCH', adminPath(collection, id), { body: { status: status === 0 ? 1 : 0 }, headers: { ...authorHeaders(), ...(editor.index !== null ? { 'If-Match': `"${editor.index}"` } : {}) } });
      setSaved(`${status === 0 ? 'Enabled' : 'Disabled'}${revision !== null ? ` as r${revision}` : ''}.`);
      await client.invalidateQueries();
    } catch (error) {
      setActionError(error);
    }
  };

  const title = id === null ? `New ${kind.one}` : parent ? id.split('/').at(-1) ?? id : id;
  if (editor.error) return <Page title={title}><Problem title={`${kind.one[0]?.toUpperCase() ?? ''}${kind.one.slice(1)} ${id ?? from} could not be loaded.`} error={editor.error} /></Page>;
  if (infos.error || schemaError) return <Page title={title}><Problem title="The schemas could not be loaded." error={infos.error ?? schemaError} retry={() => void infos.refetch()} /></Page>;

  const state = status === 0 ? 'off' : editor.verdict?.state === 'unplaced' ? 'out' : editor.verdict?.state ?? 'in_force';
  const version = last.data?.versions[0];
  const note = id === null ? (from ? `copy of ${from}` : undefined) : (
    <span className="object-note">
      {editor.verdict || status === 0 ? <StateText state={state} /> : null}
      {version ? <span>written <Go to={`/changes/${version.version}`}>r{version.version}</Go> by {version.by ?? 'unnamed'} <Since ms={version.at_ms} /></span> : null}
      {saved ? <span className="state-ok" role="status">{saved}</span> : null}
    </span>
  );
  return (
    <Page title={title} heading={<span className="object-heading">{title}{id !== null ? <CopyButton text={id} label="Copy the id" /> : null}</span>} note={note} actions={id === null ? undefined : (
      <>
        {kind.kind === 'routes' ? <Button onClick={() => explain(editor.base)}>Explain</Button> : null}
        {writable && kind.kind !== 'credentials' ? <Go className="btn btn-plain" to={`/${collection}/new`} search={{ from: id }}>Duplicate</Go> : null}
        {writable && kind.canDisable ? <Button onClick={() => void toggle()}>{status === 0 ? 'On' : 'Off'}</Button> : null}
        <Menu position="bottom-end" transitionProps={{ duration: 0 }}>
          <Menu.Target><IconButton label="More" icon={<IconDots size={16} stroke={1.75} />} /></Menu.Target>
          <Menu.Dropdown>
            <Menu.Item onClick={() => void saveFile(`${collection}-${id.replace(/\W+/g, '-')}.yaml`, { [collection]: [memberOf(collection, id, editor.base)] })}>Export as YAML</Menu.Item>
            {writable ? <Menu.Item color="var(--err)" onClick={() => setDeleting(true)}>Delete…</Menu.Item> : null}
          </Menu.Dropdown>
        </Menu>
      </>
    )}>
      {actionError !== null ? <Problem title="The change was not made." error={actionError} /> : null}
      <Strips editor={editor} kind={kind} writable={writable} source={session.source} viewer={session.role === 'viewer'} onFault={showFault} />
      {editor.conflict ? (
        <Conflict base={editor.base} theirs={editor.conflict.theirs} mine={editor.document} by={editor.conflict.by} at={editor.conflict.at} onCancel={editor.leaveConflict} onMerge={(merged) => {
          void editor.settle(merged).then(() => setReview(true));
        }} />
      ) : (
        <>
          <Tabs label="Views of the object" value={tab} options={tabs} onChange={setTab} panel="object-panel" />
          <div className="object" id="object-panel" role="tabpanel" aria-label={tabs.find((one) => one.value === tab)?.label}>
            {!editor.ready ? <Skeleton height={360} lines={8} /> : (
              <Suspense fallback={<Skeleton height={360} lines={8} />}>
                {tab === 'endpoints' && id !== null ? <Endpoints id={id} /> : null}
                {tab === 'topology' && id !== null ? <Topology focus={`upstreams/${id}`} /> : null}
                {tab === 'credentials' && id !== null ? <CredentialsTab consumer={id} writable={writable} own={editor.base as JsonObject} /> : null}
                {tab === 'certificate' && id !== null ? <CertificateTab id={id} document={editor.document} writable={writable} onReplace={(next) => {
                  editor.setDocument(next);
                  setTab('form');
                  window.setTimeout(() => setReview(true), 500);
                }} /> : null}
                {tab === 'form' || tab === 'source' ? (
                  <div className={tab === 'source' || !wide ? 'panes panes-one' : 'panes'}>
                    {tab === 'form' ? (
                      <section className="card" aria-label="Form">
                        {id === null ? <NewId kind={kind} id={newId} onChange={setNewId} plugins={plugins} /> : null}
                        {locked ? <div className="strip strip-warn" role="status"><div className="grow">The source does not parse yet: the form shows the last document that did, and takes no changes.</div>{wide ? null : <Button onClick={() => setTab('source')}>Show the source</Button>}</div> : null}
                        <FormContext.Provider value={env}>
                          <SchemaForm schema={schema as Json} document={editor.document} onChange={editor.setDocument} name={kind.kind} sections={kind.sections.length > 0 ? kind.sections : plain(schema)} hide={hidden} readOnly={!writable || locked} idPrefix="field" />
                        </FormContext.Provider>
                      </section>
                    ) : null}
                    {tab === 'source' || wide ? (
                      <section className="card pane-source" aria-label="Source">
                        <div className="pane-head"><h2>Source</h2>
                          {broken ? <span className="quiet">{syntax === 'json' ? 'JSON' : 'YAML'}, does not parse yet</span> : <Segmented label="Syntax of the source" value={syntax} onChange={setSyntax} options={[{ value: 'json', label: 'JSON' }, { value: 'yaml', label: 'YAML' }]} />}
                        </div>
                        <Suspense fallback={<Skeleton lines={6} />}>
                          <SourceEditor label={`Source of ${title}`} document={editor.document} syntax={syntax} faults={editor.faults} readOnly={!writable} onChange={editor.setDocument} place={`${draftKey}#${syntax}`} reveal={reveal} />
                        </Suspense>
                      </section>
                    ) : null}
                  </div>
                ) : null}
                {tab === 'diff' ? <section className="card pad"><DiffView label="Difference of the object" before={id === null ? undefined : editor.base} after={editor.document} changes={editor.changes} /></section> : null}
                {tab === 'history' && id !== null ? <HistoryTab kind={collection} id={id} current={editor.document} canTake={writable} source={session.source} onTake={(next) => {
                  editor.setDocument(next);
                  setTab('diff');
                }} /> : null}
                {tab === 'used-by' ? <UsesTab usage={usage.data} error={usage.error} /> : null}
              </Suspense>
            )}
          </div>
          {writable && (editor.dirty || mistake !== null) && editor.ready ? (
            <div className="save-bar" role="region" aria-label="Unsaved changes">
              <span className="grow">
                {id === null ? 'Not created yet' : editor.changes.length === 1 ? '1 change, not saved' : `${editor.changes.length} changes, not saved`}{' '}
                {mistake ? <span className="level-err"> · {broken ? 'the source' : 'a field'} does not parse <button type="button" className="w-link" onClick={() => dropTyped(`${draftKey}#`)}>Drop the typed text</button></span> : badId && id === null ? <span className="quiet"> · the id is {badId}</span> : editor.faults.length > 0 ? <button type="button" className="w-link level-err" onClick={() => showFault(editor.faults[0]?.pointer ?? '')}><span aria-hidden>■</span> {editor.faults.length === 1 ? '1 fault' : `${editor.faults.length} faults`} (F8)</button> : editor.checking ? <span className="quiet"> · checking</span> : null}
              </span>
              <Button onClick={discard}>Discard</Button>
              <Button look="main" disabled={!canReview} onClick={openReview}>Review and save <kbd className="kbd btn-wide-only">Ctrl S</kbd></Button>
            </div>
          ) : null}
        </>
      )}
      {review ? <ReviewDialog editor={editor} title={id === null ? `Create ${kind.one} ${target}` : `Save ${kind.one} ${target}`} onSave={() => void save()} onClose={() => setReview(false)} /> : null}
      {deleting && id !== null ? <DeleteDialog kind={kind} id={id} index={editor.index} onClose={() => setDeleting(false)} onDone={() => go(parent ? objectPath('consumers', parent) : `/${collection}`)} /> : null}
    </Page>
  );
}

const NO_PLUGINS = {};
/** Fields of the schemas that the instance fills in. */
const SERVER_FIELDS = ['create_time', 'update_time'];
const LABELS = { endpoints: 'Endpoints', topology: 'Topology', credentials: 'Credentials', certificate: 'Certificate' } as const;

/** The id under which a new object is checked; null is that of its document. */
function placeOfNew(kind: Kind, parent: string | null, id: string): string | null {
  if (kind.kind === 'consumers') return null;
  const good = id !== '' && idFault(kind, id) === null;
  if (parent) return `${parent}/credentials/${good ? id : 'weir-new'}`;
  if (kind.kind === 'secrets') return good ? id : `${id.split('/')[0] || 'vault'}/weir-new`;
  return good ? id : 'weir-new';
}

/** One section with all fields, for kinds without sections of their own. */
function plain(schema: Json | undefined) {
  const properties = isObject(schema) && isObject(schema.properties) ? Object.keys(schema.properties).filter((name) => name !== 'id' && !SERVER_FIELDS.includes(name)) : [];
  const required = isObject(schema) && Array.isArray(schema.required) ? schema.required.map(String) : [];
  return [{ title: 'Fields', fields: properties, open: required }];
}

/** Opens Explain with a request that the route should match. */
function explain(document: Json): void {
  const route = document as JsonObject;
  const host = [route.host, ...(Array.isArray(route.hosts) ? route.hosts : [])].find((one) => typeof one === 'string') as string | undefined;
  const uri = [route.uri, ...(Array.isArray(route.uris) ? route.uris : [])].find((one) => typeof one === 'string') as string | undefined;
  const method = Array.isArray(route.methods) && typeof route.methods[0] === 'string' ? route.methods[0] : 'GET';
  go('/explain', { method, url: `http://${(host ?? 'localhost').replace(/^\*\.?/, 'www.')}${(uri ?? '/').replace(/\*$/, '')}` });
}

/** Sentences above the tabs: why fields are text, what serves instead, what changed meanwhile, faults. */
function Strips({ editor, kind, writable, source, viewer, onFault }: { editor: ReturnType<typeof useEditor>; kind: Kind; writable: boolean; source: string; viewer: boolean; onFault: (pointer: string) => void }) {
  const verdict = editor.verdict;
  return (
    <>
      {!writable ? <div className="strip"><div className="grow dim">{viewer ? 'This key may only read.' : source === 'file' ? `The configuration comes from a file; change this ${kind.one} there.` : 'This instance takes no writes.'}</div></div> : null}
      {verdict?.state === 'last_good' ? <div className="strip strip-warn"><StateText state="last_good" label="Last good form" /><div className="grow">The form below was written in r{verdict.revision_written} and is faulty. {verdict.revision_in_force !== null ? `What serves is the form of r${verdict.revision_in_force}.` : 'An earlier form serves.'}</div>{verdict.revision_in_force !== null ? <HistoryLink revision={verdict.revision_in_force} /> : null}</div> : null}
      {verdict?.state === 'out' || verdict?.state === 'unplaced' ? <div className="strip strip-err"><StateText state="out" label="Out of force" /><div className="grow">{verdict.state === 'out' ? 'No form of it serves; its requests are answered 503.' : 'Its match cannot be read, so it matches no request.'}</div></div> : null}
      {editor.restored ? <div className="strip"><div className="grow">Unsaved changes of this tab are back. Typed secrets were not kept.</div><Button onClick={editor.discard}>Discard them</Button></div> : null}
      {editor.newer !== null ? <div className="strip strip-warn"><StateText state="warn" label="Changed elsewhere" /><div className="grow">This {kind.one} was written again while it is being edited here.</div><Button onClick={editor.takeNewer}>Compare and merge</Button></div> : null}
      {editor.checkError !== null ? <div className="strip strip-warn"><StateText state="warn" label="Not checked" /><div className="grow">The instance could not check this form: {editor.checkError instanceof Error ? editor.checkError.message : ''}</div></div> : null}
      {editor.faults.length > 0 ? (
        <div className="strip strip-err" role="alert"><div className="grow fault-links">
          {editor.faults.slice(0, 6).map((fault) => <button key={fault.pointer + fault.reason} type="button" onClick={() => onFault(fault.pointer)}><span aria-hidden>■ </span><code>{fault.pointer || 'object'}</code>: {fault.reason}</button>)}
          {editor.faults.length > 6 ? <span className="dim">and {editor.faults.length - 6} more</span> : null}
        </div></div>
      ) : null}
      {editor.otherFaults.length > 0 ? <div className="strip strip-err"><div className="grow">{editor.otherFaults.slice(0, 4).map((fault, index) => <div key={index}>■ <code>{fault.key}{fault.pointer ?? ''}</code>: {fault.reason}</div>)}</div></div> : null}
    </>
  );
}

function HistoryLink({ revision }: { revision: number }) {
  const setSearch = useSetSearch();
  return <Button onClick={() => setSearch({ tab: 'history', rev: revision }, true)}>Compare</Button>;
}
