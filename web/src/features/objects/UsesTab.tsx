/** What an object uses and which objects use it. */
import type { Usage, Use } from '../../api/types';
import { objectPath } from '../../app/url';
import { Go } from '../../ui/Go';
import { Problem, Skeleton } from '../../ui/Problem';

function Uses({ title, list, total, empty }: { title: string; list: readonly Use[]; total: number; empty: string }) {
  return (
    <section className="card" aria-label={title}>
      <div className="card-head"><h2>{title}</h2><span className="quiet">{total}</span></div>
      {list.length === 0 ? <p className="quiet pad">{empty}</p> : (
        <ul>{list.map((use) => <li key={use.kind + use.id + use.pointer}><span className="quiet">{use.kind.replace(/_/g, ' ')}</span><Go to={objectPath(use.kind, use.id)}>{use.id}</Go><code>{use.pointer}</code></li>)}</ul>
      )}
      {total > list.length ? <p className="quiet pad">and {total - list.length} more</p> : null}
    </section>
  );
}

export function UsesTab({ usage, error }: { usage: Usage | undefined; error: unknown }) {
  if (error) return <Problem title="The references could not be loaded." error={error} />;
  if (!usage) return <Skeleton lines={3} />;
  return (
    <div className="uses">
      <Uses title="Used by" list={usage.used_by} total={usage.total} empty="No object uses it." />
      <Uses title="Uses" list={usage.uses} total={usage.uses.length} empty="It uses no other object." />
    </div>
  );
}
