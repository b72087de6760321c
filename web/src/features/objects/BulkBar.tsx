/** The bar of a selection: one change for many objects, each by a plan that is shown first. */
import { useState } from 'react';
import { get } from '../../api/client';
import type { Usage } from '../../api/types';
import { objectPath } from '../../app/url';
import { ConfirmPlan } from '../../forms/ConfirmPlan';
import { Dialog } from '../../forms/Dialog';
import { isObject, type JsonObject } from '../../forms/json';
import { applySet, planSet, type ObjectSet } from '../../forms/plan';
import { Button } from '../../ui/Button';
import { Go } from '../../ui/Go';
import { Problem } from '../../ui/Problem';
import { saveFile } from './exporting';
import type { Kind } from './kinds/types';
import { adminPath, changedSet, loadMany, memberOf } from './sets';

interface Props {
  kind: Kind;
  ids: readonly string[];
  onClear: () => void;
  onDone: (message: string) => void;
}

type Action = { title: string; word: string; danger?: boolean; set: () => Promise<ObjectSet>; users?: { id: string; usage: Usage }[] };

export function BulkBar({ kind, ids, onClear, onDone }: Props) {
  const [action, setAction] = useState<Action | null>(null);
  const [labelling, setLabelling] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const word = ids.length === 1 ? kind.one : kind.label.toLowerCase();
  const change = (title: string, apply: (document: JsonObject) => JsonObject) => setAction({ title, word: 'Apply', set: () => changedSet(kind.kind, ids, apply) });
  const remove = async () => {
    setError(null);
    try {
      const users: { id: string; usage: Usage }[] = [];
      // The first hundred are enough to see that objects are in use; the server's plan checks all.
      for (const id of ids.slice(0, 100)) {
        const usage = await get<Usage>(`weir/usage/${adminPath(kind.kind, id)}`);
        if (usage.total > 0) users.push({ id, usage });
      }
      setAction({ title: `Delete ${ids.length} ${word}`, word: 'Delete', danger: true, users, set: () => Promise.resolve({ delete: ids.map((id) => `${kind.kind}/${id}`) }) });
    } catch (cause) {
      setError(cause);
    }
  };
  const exportAll = async () => {
    setError(null);
    try {
      const found = await loadMany(kind.kind, ids);
      await saveFile(`${kind.kind}.yaml`, { [kind.kind]: [...found].map(([id, document]) => memberOf(kind.kind, id, document)) });
    } catch (cause) {
      setError(cause);
    }
  };
  return (
    <>
      <div className="bulk" role="toolbar" aria-label="Selected objects">
        <span className="strong">{ids.length} selected</span>
        {kind.canDisable ? <Button onClick={() => change(`Enable ${ids.length} ${word}`, ({ status: _status, ...rest }) => rest)}>Enable</Button> : null}
        {kind.canDisable ? <Button onClick={() => change(`Disable ${ids.length} ${word}`, (document) => ({ ...document, status: 0 }))}>Disable</Button> : null}
        <Button onClick={() => setLabelling(true)}>Label…</Button>
        {ids.length === 1 ? <Go className="btn btn-plain" to={`/${kind.kind}/new`} search={{ from: ids[0] }}>Duplicate</Go> : null}
        <Button onClick={() => void exportAll()}>Export</Button>
        <Button look="danger" onClick={() => void remove()}>Delete…</Button>
        <Button look="bare" onClick={onClear}>Clear</Button>
      </div>
      {error !== null ? <Problem title="The selected objects could not be read." error={error} /> : null}
      {labelling ? <LabelDialog onClose={() => setLabelling(false)} onSet={(key, value) => {
        setLabelling(false);
        change(value === '' ? `Remove label ${key}` : `Label ${ids.length} ${word} ${key}:${value}`, (document) => {
          const labels = isObject(document.labels) ? { ...document.labels } : {};
          if (value === '') delete labels[key];
          else labels[key] = value;
          const { labels: _old, ...rest } = document;
          return Object.keys(labels).length > 0 ? { ...rest, labels } : rest;
        });
      }} /> : null}
      {action ? (
        <ConfirmPlan title={action.title} word={action.word} danger={action.danger} onClose={() => setAction(null)}
          plan={async () => planSet(await action.set())}
          apply={async (plan) => applySet(await action.set(), plan.revision)}
          onDone={(applied) => {
            setAction(null);
            onDone(`Saved as r${applied.revision}.`);
          }}
          before={action.users && action.users.length > 0 ? (
            <div className="strip strip-err"><div className="grow">
              <span className="strong">{action.users.length} of these objects are in use.</span>
              {action.users.slice(0, 8).map(({ id, usage }) => <div key={id}><code>{id}</code> is used by {usage.used_by.slice(0, 5).map((use, index) => <span key={use.kind + use.id}>{index > 0 ? ', ' : ''}<Go to={objectPath(use.kind, use.id)}>{use.kind}/{use.id}</Go></span>)}{usage.total > 5 ? ` and ${usage.total - 5} more` : ''}</div>)}
            </div></div>
          ) : null} />
      ) : null}
    </>
  );
}

function LabelDialog({ onSet, onClose }: { onSet: (key: string, value: string) => void; onClose: () => void }) {
  const [key, setKey] = useState('');
  const [value, setValue] = useState('');
  const good = /^\S+$/.test(key) && /^\S*$/.test(value);
  const done = () => good && onSet(key, value);
  return (
    <Dialog title="Label the selected objects" size={420} onClose={onClose} onConfirm={done} actions={<><Button onClick={onClose}>Cancel</Button><Button look="main" disabled={!good} onClick={done}>Show the plan</Button></>}>
      <p className="dim">An empty value removes the label. Labels have no spaces.</p>
      <div className="row">
        <input className="input grow" aria-label="Label" placeholder="team" value={key} onChange={(event) => setKey(event.target.value)} />
        <input className="input grow" aria-label="Value" placeholder="payments" value={value} onChange={(event) => setValue(event.target.value)} />
      </div>
    </Dialog>
  );
}
