/** Deleting an object: its users are listed first; deleting it anyway is a second step that says what will happen. */
import { useState } from 'react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { get, request } from '../../api/client';
import { keys } from '../../api/keys';
import type { Usage } from '../../api/types';
import { objectPath } from '../../app/url';
import { Dialog } from '../../forms/Dialog';
import { AuthorField } from '../../forms/PlanView';
import { authorHeaders } from '../../forms/plan';
import { Button } from '../../ui/Button';
import { Go } from '../../ui/Go';
import { Problem, Skeleton } from '../../ui/Problem';
import type { Kind } from './kinds/types';
import { adminPath } from './sets';

interface Props {
  kind: Kind;
  id: string;
  index: number | null;
  onDone: () => void;
  onClose: () => void;
}

export function DeleteDialog({ kind, id, index, onDone, onClose }: Props) {
  const client = useQueryClient();
  const collection = kind.kind === 'credentials' ? 'consumers' : kind.kind;
  const usage = useQuery({ queryKey: keys.usage(collection, id), queryFn: ({ signal }) => get<Usage>(`weir/usage/${adminPath(collection, id)}`, undefined, signal), retry: false });
  const [anyway, setAnyway] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const users = usage.data?.used_by ?? [];
  const routes = users.filter((use) => use.kind === 'routes' || use.kind === 'services');
  const inUse = (usage.data?.total ?? 0) > 0;
  const run = async (force: boolean) => {
    setBusy(true);
    setError(null);
    try {
      const headers = { ...authorHeaders(), ...(index !== null ? { 'If-Match': `"${index}"` } : {}) };
      await request('DELETE', adminPath(collection, id), { query: force ? { force: true } : {}, headers });
      await client.invalidateQueries();
      onDone();
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Delete ${kind.one} ${id}`} size={560} onClose={onClose} actions={
      <>
        <AuthorField />
        <Button onClick={onClose}>Cancel</Button>
        {inUse && !anyway ? <Button onClick={() => setAnyway(true)}>Delete anyway…</Button> : null}
        {!inUse || anyway ? <Button look="danger" disabled={busy || usage.isPending} onClick={() => void run(inUse)}>{inUse ? 'Delete it although it is in use' : 'Delete'}</Button> : null}
      </>
    }>
      {error !== null ? <Problem title="It was not deleted." error={error} /> : null}
      {usage.isPending ? <Skeleton lines={2} /> : null}
      {usage.data && !inUse ? <p>No object uses it. The change is one revision and can be rolled back.</p> : null}
      {inUse ? (
        <>
          <p><span className="strong">{usage.data?.total === 1 ? '1 object uses it' : `${usage.data?.total} objects use it`}</span>:</p>
          <ul className="fault-list" aria-label="Users of the object">
            {users.slice(0, 20).map((use) => <li key={use.kind + use.id}><Go to={objectPath(use.kind, use.id)}>{use.kind}/{use.id}</Go> <code className="quiet">{use.pointer}</code></li>)}
            {(usage.data?.total ?? 0) > 20 ? <li className="quiet">and {(usage.data?.total ?? 0) - 20} more</li> : null}
          </ul>
          {anyway ? <div className="strip strip-err" role="alert"><div className="grow">After it is deleted, {routes.length > 0 ? routes.slice(0, 6).map((use) => use.id).join(', ') + (routes.length > 6 ? ` and ${routes.length - 6} more` : '') : 'these objects'} will be faulty until they name another one: each keeps its last good form in force, or answers 503 if it has none.</div></div> : <p className="dim">Change these objects first, or delete it anyway.</p>}
        </>
      ) : null}
    </Dialog>
  );
}
