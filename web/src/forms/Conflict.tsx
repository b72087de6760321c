/** The page of a conflict: what both sides changed, a choice at each clash, then the merged document. */
import { useMemo, useState } from 'react';
import { Ago } from '../ui/Values';
import { Button } from '../ui/Button';
import { FieldList } from './DiffView';
import { brief, type Json } from './json';
import { isResolved, merge, resolve } from './merge';
import './diff.css';

export interface ConflictProps {
  base: Json;
  theirs: Json;
  mine: Json;
  /** The author and the time of the stored form. */
  by: string | null;
  at: number | null;
  /** Takes the merged document; nothing is written yet. */
  onMerge: (document: Json) => void;
  onCancel: () => void;
}

export function Conflict({ base, theirs, mine, by, at, onMerge, onCancel }: ConflictProps) {
  const found = useMemo(() => merge(base, theirs, mine), [base, theirs, mine]);
  const [choices, setChoices] = useState<Record<string, 'theirs' | 'mine'>>({});
  const choose = (pointer: string, side: 'theirs' | 'mine') => setChoices((old) => ({ ...old, [pointer]: side }));
  const open = found.clashes.filter((clash) => choices[clash.pointer] === undefined).length;
  return (
    <section className="w-conflict card" aria-label="Conflict">
      <header>
        <h2>This object was changed while it was being edited.</h2>
        <p className="dim">The stored form was written by {by ?? 'an unnamed author'}{at !== null ? <> <Ago ms={at} /> ago</> : null}. Both forms are kept here until they are merged.</p>
      </header>
      {found.clashes.length > 0 ? (
        <table className="w-changes w-clashes">
          <thead><tr><th>Changed on both sides</th><th>Before</th><th>Stored</th><th>Mine</th></tr></thead>
          <tbody>
            {found.clashes.map((clash) => (
              <tr key={clash.pointer}>
                <th scope="row"><code>{clash.pointer || 'whole object'}</code></th>
                <td><code>{brief(clash.base, 160)}</code></td>
                {(['theirs', 'mine'] as const).map((side) => (
                  <td key={side}>
                    <label className="w-pick" data-on={choices[clash.pointer] === side || undefined}>
                      <input type="radio" name={`clash${clash.pointer}`} checked={choices[clash.pointer] === side} onChange={() => choose(clash.pointer, side)} />
                      <code>{clash[side] === undefined ? 'removed' : brief(clash[side], 160)}</code>
                    </label>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      ) : <p className="w-none">No field was changed on both sides; the changes merge by themselves.</p>}
      <div className="w-sides">
        <div><h3>Only in the stored form, {found.onlyTheirs.length}</h3><FieldList changes={found.onlyTheirs} empty="None." /></div>
        <div><h3>Only mine, {found.onlyMine.length}</h3><FieldList changes={found.onlyMine} empty="None." /></div>
      </div>
      <footer>
        {open > 0 ? <span className="dim">{open === 1 ? '1 field needs a choice.' : `${open} fields need a choice.`}</span> : <span className="dim">Nothing is written before the difference was shown again.</span>}
        <Button onClick={onCancel}>Back to my form</Button>
        <Button look="main" disabled={!isResolved(found, choices)} onClick={() => onMerge(resolve(found, choices))}>Merge and review</Button>
      </footer>
    </section>
  );
}
