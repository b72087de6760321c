/** The credentials of a consumer. Their secrets are never shown. */
import { useQuery } from '@tanstack/react-query';
import { IconPlus } from '@tabler/icons-react';
import { ApiError, get } from '../../api/client';
import { objectPath } from '../../app/url';
import type { JsonObject } from '../../forms/json';
import { isObject } from '../../forms/json';
import { isReference } from '../../forms/secrets';
import { Go } from '../../ui/Go';
import { Empty, Problem, Skeleton } from '../../ui/Problem';
import { Ago } from '../../ui/Values';

interface Entry {
  key: string;
  value: JsonObject;
}

/** What identifies a credential without revealing it: a reference, or the last two characters of a key. */
function tail(config: unknown): string {
  if (!isObject(config)) return '';
  const value = config.key ?? config.username ?? config.key_id ?? config.user_dn;
  if (typeof value !== 'string') return '';
  if (isReference(value) || config.key === undefined) return value;
  return value === '(hidden)' || value.length < 8 ? '••••' : `••••${value.slice(-2)}`;
}

/** The credentials of a consumer; as in APISIX, a consumer without any is answered 404. */
async function credentialsOf(consumer: string, signal: AbortSignal): Promise<{ list: Entry[] }> {
  try {
    return await get<{ list: Entry[] }>(`consumers/${encodeURIComponent(consumer)}/credentials`, undefined, signal);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { list: [] };
    throw error;
  }
}

export function CredentialsTab({ consumer, writable, own }: { consumer: string; writable: boolean; own: JsonObject }) {
  const { data, error, refetch } = useQuery({ queryKey: ['object', 'credentials', consumer], queryFn: ({ signal }) => credentialsOf(consumer, signal), gcTime: 0 });
  if (error) return <Problem title="The credentials could not be loaded." error={error} retry={() => void refetch()} />;
  if (!data) return <Skeleton lines={3} />;
  const inside = Object.entries(isObject(own.plugins) ? own.plugins : {}).filter(([name]) => /auth|jwe/.test(name));
  const add = writable ? <Go className="btn btn-main" to={objectPath('consumers', `${consumer}/credentials/new`)}><IconPlus size={16} stroke={1.75} aria-hidden /><span>Credential</span></Go> : undefined;
  return (
    <section className="card" aria-label="Credentials">
      <div className="card-head"><h2>Credentials</h2><span className="quiet">{data.list.length + inside.length}</span><div className="card-right">{add}</div></div>
      {data.list.length + inside.length === 0 ? <Empty title="This consumer has no credential, so no request counts as its." action={add} /> : (
        <table className="table">
          <thead><tr><th>Plugin</th><th>Credential</th><th>Name</th><th className="num">Changed</th></tr></thead>
          <tbody>
            {data.list.map(({ key, value }) => {
              const id = String(value.id ?? key.split('/').at(-1));
              const [plugin, config] = Object.entries(isObject(value.plugins) ? value.plugins : {})[0] ?? ['none', {}];
              return (
                <tr key={id}>
                  <td>{plugin}</td>
                  <td><Go to={objectPath('consumers', `${consumer}/credentials/${id}`)}><code>{tail(config) || id}</code></Go></td>
                  <td className="dim">{typeof value.name === 'string' ? value.name : id}</td>
                  <td className="num quiet">{typeof value.update_time === 'number' ? <Ago ms={value.update_time * 1000} /> : '–'}</td>
                </tr>
              );
            })}
            {inside.map(([plugin, config]) => <tr key={plugin}><td>{plugin}</td><td><code>{tail(config)}</code></td><td className="dim">in the consumer itself</td><td className="num quiet">–</td></tr>)}
          </tbody>
        </table>
      )}
    </section>
  );
}
