/** The revisions that touched an object, each with its difference; one of them can be taken up again. */
import { useEffect, useState } from 'react';
import { useQuery } from '@tanstack/react-query';
import { get, getExact } from '../../api/client';
import { keys } from '../../api/keys';
import type { Versions } from '../../api/types';
import { useSearch, useSetSearch } from '../../app/url';
import { DiffView, FieldList } from '../../forms/DiffView';
import { fieldChanges } from '../../forms/document';
import type { Json, JsonObject } from '../../forms/json';
import type { ObjectChange } from '../../forms/plan';
import { fillHidden } from '../../forms/secrets';
import { Button } from '../../ui/Button';
import { Go } from '../../ui/Go';
import { Empty, Problem, Skeleton } from '../../ui/Problem';
import { Since } from './kinds/cells';
import { adminPath, documentOf } from './sets';

interface Props {
  kind: string;
  id: string;
  current: Json;
  canTake: boolean;
  onTake: (document: Json, revision: number) => void;
  source: string;
}

export function HistoryTab({ kind, id, current, canTake, onTake, source }: Props) {
  const key = `${kind}/${id}`;
  const params = useSearch();
  const setSearch = useSetSearch();
  const shown = Number(params.rev ?? 0) || null;
  const versions = useQuery({ queryKey: keys.versions({ key, limit: 100 }), queryFn: ({ signal }) => get<Versions>('weir/versions', { key, limit: 100 }, signal) });
  if (versions.error) return <Problem title="The history could not be loaded." error={versions.error} retry={() => void versions.refetch()} />;
  if (!versions.data) return <Skeleton lines={4} />;
  const list = versions.data.versions;
  if (list.length === 0) return <div className="card"><Empty title={source === 'file' ? 'The history of a file is in your version control.' : `No kept revision touched this object. The oldest kept revision is r${versions.data.oldest}.`} /></div>;
  return (
    <section className="card" aria-label="History">
      <ul className="history">
        {list.map((row) => (
          <li key={row.version}>
            <div className="history-row">
              <code>r{row.version}</code>
              <span className="quiet"><Since ms={row.at_ms} /></span>
              <span className="strong">{row.by ?? 'unnamed'}</span>
              <span className="dim grow">{row.source}</span>
              <Button look="bare" aria-expanded={shown === row.version} onClick={() => setSearch({ rev: shown === row.version ? null : row.version }, true)}>{shown === row.version ? 'Hide' : 'See it as it was'}</Button>
              <Go to={`/changes/${row.version}`}>Whole revision</Go>
            </div>
            <Change version={row.version} objectKey={key} />
            {shown === row.version ? <AsItWas version={row.version} kind={kind} id={id} current={current} canTake={canTake} onTake={onTake} /> : null}
          </li>
        ))}
      </ul>
      <p className="quiet pad">Revisions are kept back to r{versions.data.oldest}.</p>
    </section>
  );
}

/** What one revision changed in the object. */
function Change({ version, objectKey }: { version: number; objectKey: string }) {
  const { data } = useQuery({ queryKey: keys.version(version), queryFn: ({ signal }) => getExact<{ changes: ObjectChange[] }>(`weir/versions/${version}`, { limit: 200 }, signal), staleTime: Number.POSITIVE_INFINITY });
  const change = data?.changes.find((each) => each.key === objectKey);
  if (!change) return null;
  return <div className="history-body">{change.action === 'change' ? <FieldList changes={change.fields} /> : <span className="dim">{change.action === 'create' ? 'created' : 'deleted'}</span>}</div>;
}

function AsItWas({ version, kind, id, current, canTake, onTake }: Omit<Props, 'source'> & { version: number }) {
  const { data, error } = useQuery({ queryKey: ['version', version, kind, id], queryFn: ({ signal }) => getExact<{ value: JsonObject | null }>(`weir/versions/${version}/objects/${adminPath(kind, id)}`, undefined, signal), staleTime: Number.POSITIVE_INFINITY, retry: false });
  const [then, setThen] = useState<Json | null>(null);
  useEffect(() => setThen(data?.value ? fillHidden(documentOf(data.value, kind), current) : null), [data, kind, current]);
  if (error) return <div className="history-body"><Problem title="That form could not be loaded." error={error} /></div>;
  if (!data) return <div className="history-body"><Skeleton lines={2} /></div>;
  if (then === null) return <p className="history-body dim">The object did not exist in r{version}.</p>;
  return (
    <div className="history-body">
      <p className="dim">From r{version} to the form in the editor:</p>
      <DiffView label={`Difference to r${version}`} before={then} after={current} changes={fieldChanges(then, current)} />
      {canTake ? <Button onClick={() => onTake(then, version)}>Take r{version} up again…</Button> : null}
    </div>
  );
}
