/** The id of a new object: free, made by the server, or given by its kind. */
import type { PluginInfo } from '../../forms/env';
import type { Kind } from './kinds/types';

/** The rule of ids in the Admin API. */
const GOOD = /^[a-zA-Z0-9-_.]{1,64}$/;

export function idFault(kind: Kind, id: string): string | null {
  const bare = kind.kind === 'secrets' ? id.split('/')[1] ?? '' : id;
  if (id === '' && kind.canPost) return null;
  if (bare === '') return 'needed';
  return GOOD.test(bare) || kind.kind === 'plugin_metadata' ? null : 'letters, digits, "-", "_" and "."; at most 64';
}

export function NewId({ kind, id, onChange, plugins }: { kind: Kind; id: string; onChange: (id: string) => void; plugins: Readonly<Record<string, PluginInfo>> }) {
  if (kind.kind === 'consumers') return null;
  const fault = id === '' ? null : idFault(kind, id);
  const [manager = 'vault', rest = ''] = kind.kind === 'secrets' ? id.split('/') : ['', id];
  return (
    <div className="id-field">
      <label htmlFor="new-id">{kind.kind === 'plugin_metadata' ? 'Plugin' : 'Id'}</label>
      {kind.kind === 'secrets' ? (
        <select className="input" aria-label="Manager" value={manager || 'vault'} onChange={(event) => onChange(`${event.target.value}/${rest}`)}>
          <option value="vault">vault</option><option value="aws">aws</option><option value="gcp">gcp</option>
        </select>
      ) : null}
      {kind.kind === 'plugin_metadata' ? (
        <select id="new-id" className="input" value={id} onChange={(event) => onChange(event.target.value)}>
          <option value="">choose a plugin</option>
          {Object.keys(plugins).filter((name) => plugins[name]?.metadata_schema).sort().map((name) => <option key={name}>{name}</option>)}
        </select>
      ) : (
        <input id="new-id" className="input mono" value={kind.kind === 'secrets' ? rest : id} spellCheck={false} autoComplete="off" aria-invalid={fault !== null || undefined} placeholder={kind.canPost ? 'empty: the instance makes one' : ''} onChange={(event) => onChange(kind.kind === 'secrets' ? `${manager || 'vault'}/${event.target.value}` : event.target.value)} />
      )}
      {fault ? <span className="level-err">{fault}</span> : null}
    </div>
  );
}
