/** Configuring a plugin: where, its form, a try without writing, then the difference and the save. */
import { useEffect, useMemo, useState } from 'react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { get, post, request } from '../../api/client';
import type { Explanation } from '../../api/explain';
import { keys } from '../../api/keys';
import { pluginInfos } from '../../forms/catalogue';
import type { ObjectList, PluginRow } from '../../api/types';
import { go, objectPath } from '../../app/url';
import { ConfirmPlan } from '../../forms/ConfirmPlan';
import { fieldChanges, withValue } from '../../forms/document';
import { FieldList } from '../../forms/DiffView';
import { FormContext, pluginSchema, type FormEnv, type PluginInfo } from '../../forms/env';
import { isObject, pointerOf, type Json, type JsonObject } from '../../forms/json';
import { applySet, faultsOf, planSet, type SetFault } from '../../forms/plan';
import { mask, unmask } from '../../forms/secrets';
import { SchemaForm } from '../../forms/SchemaForm';
import type { Fault } from '../../forms/validator';
import { Button } from '../../ui/Button';
import { Mark } from '../../ui/Mark';
import { Card } from '../../ui/Page';
import { Problem } from '../../ui/Problem';

/** Places that hold plugins, by the scopes of the catalogue. */
const PLACES: { kind: string; scope: string; label: string }[] = [
  { kind: 'routes', scope: 'route', label: 'route' }, { kind: 'services', scope: 'service', label: 'service' },
  { kind: 'plugin_configs', scope: 'route', label: 'plugin config' }, { kind: 'global_rules', scope: 'global_rule', label: 'global rule' },
  { kind: 'consumers', scope: 'consumer', label: 'consumer' }, { kind: 'consumer_groups', scope: 'consumer', label: 'consumer group' },
];
/** The check begins this long after the last key. */
const PAUSE_MS = 300;
const SERVER_FIELDS = ['id', 'create_time', 'update_time'];

export default function Configure({ name, info, scopes }: { name: string; info: PluginInfo | undefined; scopes: string[] }) {
  const places = PLACES.filter((place) => scopes.length === 0 || scopes.includes(place.scope));
  const [kind, setKind] = useState(places[0]?.kind ?? 'routes');
  const [id, setId] = useState('');
  const [chosen, setChosen] = useState<{ kind: string; id: string } | null>(null);
  const choices = useQuery({ queryKey: ['rows', kind, { q: id, suggest: true }], queryFn: ({ signal }) => get<ObjectList>(`weir/objects/${kind}`, { q: id.replace(/["\s:]/g, ' ').trim(), limit: 20 }, signal) });
  return (
    <div className="steps">
      <Card title="1 Where">
        <form className="step-body" onSubmit={(event) => {
          event.preventDefault();
          if (id.trim() !== '') setChosen({ kind, id: id.trim() });
        }}>
          <div className="step-where">
            <label>Kind<select className="input" value={kind} onChange={(event) => { setKind(event.target.value); setId(''); setChosen(null); }}>{places.map((place) => <option key={place.kind} value={place.kind}>{place.label}</option>)}</select></label>
            <label>Object<input className="input" list="configure-objects" value={id} placeholder={kind === 'global_rules' ? 'id, also of a new one' : 'id'} spellCheck={false} autoComplete="off" onChange={(event) => setId(event.target.value)} /></label>
            <datalist id="configure-objects">{choices.data?.list.map((row) => <option key={row.id} value={row.id}>{row.name ?? row.id}</option>)}</datalist>
          </div>
          <div className="row"><Button type="submit" disabled={id.trim() === ''}>Take it</Button></div>
        </form>
      </Card>
      {chosen ? <Steps key={`${chosen.kind}/${chosen.id}`} name={name} info={info} kind={chosen.kind} id={chosen.id} /> : null}
    </div>
  );
}

interface Stored {
  value: JsonObject;
  modifiedIndex: number;
}

function Steps({ name, info, kind, id }: { name: string; info: PluginInfo | undefined; kind: string; id: string }) {
  const client = useQueryClient();
  const facts = useQuery({ queryKey: keys.plugins, queryFn: ({ signal }) => get<{ list: PluginRow[] }>('weir/plugins', undefined, signal), staleTime: 60_000, retry: false });
  const infos = useQuery({ queryKey: keys.pluginSchemas, queryFn: ({ signal }) => pluginInfos(signal), staleTime: Number.POSITIVE_INFINITY });
  const stored = useQuery({ queryKey: ['configure', kind, id], queryFn: async ({ signal }) => (await request<Stored>('GET', `${kind}/${id.split('/').map(encodeURIComponent).join('/')}`, { signal, exact: true })).data, retry: false, gcTime: 0, refetchOnWindowFocus: false });
  const plugins = useMemo(() => infos.data ?? {}, [infos.data]);
  // A global rule may be new; any other object must be there.
  const missing = stored.error !== null && kind === 'global_rules';
  const masked = useMemo(() => {
    if (!stored.data && !missing) return null;
    const value = Object.fromEntries(Object.entries(stored.data?.value ?? { plugins: {} }).filter(([key]) => !SERVER_FIELDS.includes(key)));
    return mask(kind, value, plugins);
  }, [stored.data, missing, kind, plugins]);
  const pointer = `/plugins${pointerOf([name])}`;
  const [document, setDocument] = useState<Json | null>(null);
  const [faults, setFaults] = useState<SetFault[]>([]);
  const [saving, setSaving] = useState(false);
  useEffect(() => {
    if (masked && document === null) {
      const had = isObject(masked.document) && isObject(masked.document.plugins) && Object.hasOwn(masked.document.plugins, name);
      setDocument(had ? masked.document : withValue(masked.document, pointer, {}));
    }
  }, [masked, document, name, pointer]);
  const member = useMemo<JsonObject | null>(() => {
    if (!masked || document === null) return null;
    const full = unmask(document, masked.kept) as JsonObject;
    return kind === 'consumers' ? { ...full, username: id } : { id, ...full };
  }, [masked, document, kind, id]);
  const text = member === null ? null : JSON.stringify(member);
  useEffect(() => {
    if (text === null) return undefined;
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      planSet({ [kind]: [JSON.parse(text) as Json] }, abort.signal).then(() => setFaults([]), (error: unknown) => !abort.signal.aborted && setFaults(faultsOf(error)));
    }, PAUSE_MS);
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [text, kind]);
  const known = useMemo(() => new Map((facts.data?.list ?? []).map((row) => [row.name, row])), [facts.data]);
  const env = useMemo<FormEnv>(() => ({
    kind, faults: faults.map((fault): Fault => ({ pointer: fault.pointer ?? '', reason: fault.reason })), base: pointer, draft: `configure/${kind}/${id}`, readOnly: false, plugins, facts: known,
    candidates: async (of, word) => (await get<ObjectList>(`weir/objects/${of}`, { q: word.replace(/["\s:]/g, ' ').trim(), limit: 50 })).list.map((row) => ({ id: row.id, name: row.name })), linkTo: objectPath,
  }), [kind, id, faults, pointer, plugins, known]);

  if (stored.error && !missing) return <Problem title={`${kind}/${id} could not be loaded.`} error={stored.error} />;
  if (document === null || masked === null || member === null) return null;
  const config = isObject(document) && isObject(document.plugins) ? document.plugins[name] ?? {} : {};
  const schema = pluginSchema(info, kind);
  const changes = fieldChanges(masked.document, document);
  return (
    <>
      <Card title={`2 Form, in ${kind}/${id}`}>
        <div className="step-body">
          <FormContext.Provider value={env}>
            <SchemaForm schema={schema ?? { type: 'object' }} document={config} name={kind === 'consumers' ? `${name}.consumer` : name} idPrefix="configure" onChange={(next) => setDocument((old) => withValue(old ?? document, pointer, next))} />
          </FormContext.Provider>
          {faults.filter((fault) => !(fault.pointer ?? '').startsWith(pointer)).slice(0, 4).map((fault, index) => <p key={index} className="level-err">■ <code>{fault.pointer}</code> {fault.reason}</p>)}
        </div>
      </Card>
      <Try name={name} keyOf={`${kind}/${id}`} value={member} route={kind === 'routes' ? member : null} blocked={faults.length > 0} />
      <Card title="4 Difference">
        <div className="step-body">
          <FieldList changes={changes} empty="Nothing differs from the stored form." />
          <div className="row"><Button look="main" disabled={changes.length === 0 || faults.length > 0} onClick={() => setSaving(true)}>Review and save</Button></div>
        </div>
      </Card>
      {saving ? (
        <ConfirmPlan title={`Save ${name} in ${kind}/${id}`} word="Save" onClose={() => setSaving(false)} plan={() => planSet({ [kind]: [member] })} apply={(plan) => applySet({ [kind]: [member] }, plan.revision)}
          onDone={() => {
            void client.invalidateQueries();
            go(objectPath(kind, id), { at: pointer });
          }} />
      ) : null}
    </>
  );
}

/** Explain with the unsaved object: nothing is sent, counted or written. */
function Try({ name, keyOf, value, route, blocked }: { name: string; keyOf: string; value: JsonObject; route: JsonObject | null; blocked: boolean }) {
  const first = (one: Json | undefined) => (Array.isArray(one) ? one[0] : one);
  const host = route ? String(first(route.host ?? route.hosts) ?? 'localhost').replace(/^\*\.?/, 'www.') : 'localhost';
  const path = route ? String(first(route.uri ?? route.uris) ?? '/').replace(/\*$/, '') : '/';
  const [method, setMethod] = useState(route && Array.isArray(route.methods) ? String(route.methods[0] ?? 'GET') : 'GET');
  const [url, setUrl] = useState(`http://${host}${path}`);
  const [answer, setAnswer] = useState<Explanation | null>(null);
  const [error, setError] = useState<unknown>(null);
  const run = async () => {
    setError(null);
    try {
      setAnswer(await post<Explanation>('weir/explain', { method, url, headers: [], with: { key: keyOf, value } }));
    } catch (cause) {
      setError(cause);
    }
  };
  const steps = (answer?.pipeline ?? []).filter((step) => step.plugin === name);
  return (
    <Card title="3 Try" right="nothing is sent or written">
      <form className="step-body" onSubmit={(event) => {
        event.preventDefault();
        void run();
      }}>
        <div className="row">
          <select className="input" aria-label="Method" value={method} onChange={(event) => setMethod(event.target.value)}>{['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS'].map((one) => <option key={one}>{one}</option>)}</select>
          <input className="input grow mono" aria-label="URL of the request" value={url} spellCheck={false} onChange={(event) => setUrl(event.target.value)} />
          <Button type="submit" disabled={blocked}>Try</Button>
        </div>
        {blocked ? <p className="quiet">The form has a fault.</p> : null}
        {error !== null ? <Problem title="It could not be tried." error={error} /> : null}
        {answer ? (
          <ul className="fault-list" role="status">
            <li><Mark state={answer.matched ? 'ok' : 'warn'} label="" /><span>{answer.matched ? <>Route <span className="strong">{answer.matched.id}</span> takes the request.</> : 'No route takes the request.'}</span></li>
            {steps.map((step, index) => <li key={index}><Mark state={step.runs === true ? 'ok' : step.runs === false ? 'off' : 'half'} label="" /><span><span className="strong">{step.plugin}</span> ({step.from.replace('_', ' ')}, {step.phase}) {step.runs === true ? 'runs' : step.runs === false ? 'does not run' : 'runs or not, depending on what it asks'}{step.why ? `: ${step.why}` : ''}{step.would ? `; ${step.would.text}` : ''}</span></li>)}
            {answer.pipeline && steps.length === 0 ? <li><Mark state="off" label="" /><span>{name} does not run for this request.</span></li> : null}
          </ul>
        ) : null}
      </form>
    </Card>
  );
}
