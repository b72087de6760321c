/** The difference of two documents: field by field, or as text. */
import { Suspense, lazy, useState } from 'react';
import { Segmented } from '../ui/Button';
import type { FieldChange } from './document';
import { brief, isObject, type Json } from './json';
import { renderJson } from './jsonText';
import './diff.css';

const TextDiff = lazy(() => import('./TextDiff'));

/** A value of a field as it stands in a difference. Long texts are cut; the text view has them whole. */
function Side({ value, gone }: { value: Json | undefined; gone: boolean }) {
  if (value === undefined) return <span className="quiet">not set</span>;
  const long = isObject(value) || Array.isArray(value);
  return <code className={gone ? 'w-before' : 'w-after'}>{long ? brief(value, 240) : brief(value, 240)}</code>;
}

export function FieldList({ changes, empty = 'Nothing differs.' }: { changes: readonly FieldChange[]; empty?: string }) {
  if (changes.length === 0) return <p className="w-none">{empty}</p>;
  return (
    <table className="w-changes">
      <thead className="sr"><tr><th>Field</th><th>Before</th><th>After</th></tr></thead>
      <tbody>
        {changes.map((change) => (
          <tr key={change.pointer}>
            <th scope="row">
              <span className="w-sign" data-kind={kindOf(change)} aria-label={WORDS[kindOf(change)]} role="img">{SIGNS[kindOf(change)]}</span>
              <code>{change.pointer === '' ? 'whole object' : change.pointer}</code>
            </th>
            <td><Side value={change.before} gone /></td>
            <td aria-hidden className="w-arrow">→</td>
            <td><Side value={change.after} gone={false} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

type Kind = 'create' | 'change' | 'delete';
export const SIGNS: Record<Kind, string> = { create: '+', change: '~', delete: '−' };
const WORDS: Record<Kind, string> = { create: 'added', change: 'changed', delete: 'removed' };

function kindOf(change: FieldChange): Kind {
  return change.before === undefined ? 'create' : change.after === undefined ? 'delete' : 'change';
}

export function DiffView({ before, after, changes, label }: { before: Json | undefined; after: Json | undefined; changes: readonly FieldChange[]; label: string }) {
  const [view, setView] = useState<'fields' | 'text'>('fields');
  return (
    <div className="w-diff">
      <div className="w-diff-bar">
        <Segmented label="View of the difference" value={view} onChange={setView} options={[{ value: 'fields', label: 'Fields' }, { value: 'text', label: 'Text' }]} />
      </div>
      {view === 'fields' ? <FieldList changes={changes} /> : (
        <Suspense fallback={<p className="w-none">Loading the editor…</p>}>
          <TextDiff label={label} before={before === undefined ? '' : renderJson(before)} after={after === undefined ? '' : renderJson(after)} />
        </Suspense>
      )}
    </div>
  );
}
