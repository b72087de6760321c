/** The plugins of an object: one row each, in the order in which they run; a row opens the plugin's own form. */
import { useEffect, useMemo, useState } from 'react';
import type { FieldProps } from '@rjsf/utils';
import { Autocomplete, Switch } from '@mantine/core';
import { IconChevronRight, IconTrash } from '@tabler/icons-react';
import { Go } from '../../ui/Go';
import { Mark } from '../../ui/Mark';
import { nanos, plainLine } from '../../ui/format';
import { applyPatch, patchOf } from '../document';
import { FormContext, faultsAt, pluginSchema, type FormEnv } from '../env';
import { brief, isObject, pointerOf, type Json, type JsonObject } from '../json';
import { SchemaForm } from '../SchemaForm';
import { SmallIcon } from '../Small';
import { dropTyped } from '../typed';
import { JsonInput } from './JsonField';
import { useField } from './props';
import { scalarText } from './scalars';
import { Reasons } from './Reasons';

/** Scopes of the catalogue by kind, so that a consumer is not offered what it cannot hold. */
const SCOPES: Record<string, string> = { routes: 'route', services: 'service', consumers: 'consumer', credentials: 'consumer', consumer_groups: 'consumer', plugin_configs: 'route', global_rules: 'global_rule', stream_routes: 'stream_route' };

/** The priority of a configured plugin: its own, or the one in `_meta`. */
function priorityOf(env: FormEnv, name: string, config: Json): number {
  const meta = isObject(config) && isObject(config._meta) ? config._meta.priority : undefined;
  return typeof meta === 'number' ? meta : env.plugins[name]?.priority ?? 0;
}

export function PluginsField(props: FieldProps) {
  const { value, emit, pointer, readOnly, id, env } = useField(props);
  const plugins: JsonObject = isObject(value) ? value : {};
  const names = Object.keys(plugins).sort((a, b) => priorityOf(env, b, plugins[b] as Json) - priorityOf(env, a, plugins[a] as Json));
  // Rows that were opened or closed by hand; the others are open while they have a fault.
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const choose = (name: string, open: boolean) => setChosen((old) => new Map([...old, [name, open]]));
  const set = (name: string, config: Json | undefined) => emit(applyPatch(plugins, config === undefined ? [{ op: 'remove', path: pointerOf([name]) }] : [{ op: 'add', path: pointerOf([name]), value: config }]));
  return (
    <div className="w-plugins" id={id}>
      {names.length > 0 ? (
        <ul>
          {names.map((name) => (
            <PluginRow key={name} name={name} config={plugins[name] as Json} env={env} pointer={pointer + pointerOf([name])} chosen={chosen.get(name)} choose={(open) => choose(name, open)} set={(config) => set(name, config)} readOnly={readOnly} idPrefix={`${id}/${name}`} />
          ))}
        </ul>
      ) : null}
      {readOnly ? (names.length === 0 ? <p className="w-help">No plugin is configured here.</p> : null) : (
        <AddPlugin env={env} taken={names} add={(name) => {
          set(name, {});
          choose(name, true);
        }} />
      )}
    </div>
  );
}

interface RowProps {
  name: string;
  config: Json;
  env: FormEnv;
  pointer: string;
  chosen: boolean | undefined;
  choose: (open: boolean) => void;
  set: (config: Json | undefined) => void;
  readOnly: boolean;
  idPrefix: string;
}

function PluginRow({ name, config, env, pointer, chosen, choose, set, readOnly, idPrefix }: RowProps) {
  const { here, below } = faultsAt(env, pointer);
  const meta = isObject(config) && isObject(config._meta) ? config._meta : {};
  const off = meta.disable === true;
  const schema = pluginSchema(env.plugins[name], env.kind);
  const faults = here.length + below.length;
  // A row that a fault opened stays open when the fault is mended, so that the field does not vanish under the cursor.
  const [mended, setMended] = useState(false);
  const isFaulty = faults > 0;
  useEffect(() => {
    if (isFaulty) setMended(true);
  }, [isFaulty]);
  const shown = chosen ?? (mended || isFaulty);
  const inner = useMemo(() => ({ ...env, base: pointer }), [env, pointer]);
  const cost = env.facts.get(name)?.cost_ns;
  const switchTo = (on: boolean) => {
    const object = isObject(config) ? config : {};
    const { disable: _disable, ...rest } = meta;
    const next: JsonObject = on ? rest : { ...rest, disable: true };
    const { _meta: _old, ...others } = object;
    set(Object.keys(next).length > 0 ? { ...object, _meta: next } : others);
  };
  return (
    <li className="w-plugin" data-pointer={pointer} data-off={off || undefined} data-bad={faults > 0 || undefined}>
      <div className="w-plugin-row">
        <button type="button" className="w-fold-head" aria-expanded={shown} onClick={() => choose(!shown)}>
          <IconChevronRight size={14} stroke={1.75} className="w-chevron" data-open={shown || undefined} aria-hidden />
          <Mark state={faults > 0 ? 'err' : off ? 'off' : schema ? 'ok' : 'unknown'} label={faults > 0 ? 'has a fault' : off ? 'disabled' : schema ? 'enabled' : 'unknown to this build'} />
          <span className="w-fold-title">{name}</span>
          <span className="w-fold-note">{summaryOf(config)}</span>
        </button>
        {cost != null ? <span className="w-cost">{nanos(cost)}</span> : null}
        {readOnly ? null : <Switch size="xs" checked={!off} aria-label={`${name} is enabled`} onChange={(event) => switchTo(event.currentTarget.checked)} />}
        {readOnly ? null : <SmallIcon label={`Remove ${name}`} onClick={() => {
          dropTyped(env.draft + pointer);
          set(undefined);
        }} icon={<IconTrash size={14} stroke={1.75} />} />}
      </div>
      {shown ? (
        <div className="w-plugin-body">
          {env.facts.get(name) ? <p className="w-help">{plainLine(env.facts.get(name)?.summary ?? '')} <Go to={`/plugins/${encodeURIComponent(name)}`}>Documentation</Go></p> : null}
          <Reasons faults={here} id={`${idPrefix}-faults`} />
          {schema && isObject(config) ? (
            <FormContext.Provider value={inner}>
              <SchemaForm schema={schema} document={config} name={env.kind === 'consumers' || env.kind === 'credentials' ? `${name}.consumer` : name} idPrefix={idPrefix} readOnly={readOnly} onChange={(next) => set(applyPatch(config, patchOf(config, next)))} />
            </FormContext.Provider>
          ) : (
            <>
              <p className="w-help">{schema ? 'This is not an object; it is edited as JSON.' : 'This build does not have the plugin; its configuration is edited as JSON.'}</p>
              <JsonInput aria={{ id: `${idPrefix}-json`, 'aria-label': `${name} as JSON` }} value={config} emit={(next) => set(next ?? {})} pointer={pointer} rows={4} />
            </>
          )}
        </div>
      ) : null}
    </li>
  );
}

function summaryOf(config: Json): string {
  if (!isObject(config)) return brief(config, 60);
  const parts = Object.entries(config).filter(([name]) => name !== '_meta').map(([name, item]) => (isObject(item) || Array.isArray(item) ? name : `${name} ${scalarText(item, Number.POSITIVE_INFINITY)}`));
  const text = parts.join(', ');
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

function AddPlugin({ env, taken, add }: { env: FormEnv; taken: readonly string[]; add: (name: string) => void }) {
  const [text, setText] = useState('');
  const scope = SCOPES[env.kind];
  const offered = useMemo(() => {
    const names = Object.keys(env.plugins).filter((name) => !taken.includes(name));
    const fits = (name: string) => {
      const scopes = env.facts.get(name)?.scopes;
      if (env.kind === 'credentials') return env.plugins[name]?.consumer_schema !== undefined;
      return scopes === undefined || scope === undefined || scopes.length === 0 || scopes.includes(scope);
    };
    const groups = new Map<string, string[]>();
    for (const name of names.filter(fits).sort()) {
      const group = env.facts.get(name)?.group ?? 'Plugins';
      groups.set(group, [...(groups.get(group) ?? []), name]);
    }
    return [...groups].map(([group, items]) => ({ group, items }));
  }, [env, taken, scope]);
  const known = offered.some(({ items }) => items.includes(text));
  const take = (name: string) => {
    setText('');
    add(name);
  };
  return (
    <Autocomplete className="w-input" aria-label="Add a plugin" placeholder="+ Add a plugin" value={text} data={offered} onChange={setText} onOptionSubmit={take} maxDropdownHeight={320} spellCheck={false}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && known) take(text);
      }}
      renderOption={({ option }) => <span className="w-candidate"><span>{option.value}</span><small>{plainLine(env.facts.get(option.value)?.summary ?? '')}</small></span>}
      comboboxProps={{ shadow: 'sm', transitionProps: { duration: 0 } }} />
  );
}
