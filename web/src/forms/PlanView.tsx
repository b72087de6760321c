/** A plan as a list of objects, deletes first; each opens to its fields. Long plans are drawn in a window. */
import { useRef, useState } from 'react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { IconChevronRight } from '@tabler/icons-react';
import { usePref } from '../app/prefs';
import { Mark } from '../ui/Mark';
import { FieldList, SIGNS } from './DiffView';
import { inOrder, type ObjectChange, type Plan, type SetFault } from './plan';
import './dialog.css';

/** Plans up to this length are drawn whole. */
const WHOLE = 60;

function Item({ change, open, toggle }: { change: ObjectChange; open: boolean; toggle: () => void }) {
  const note = change.action === 'change' ? (change.fields.length === 1 ? change.fields[0]?.pointer : `${change.fields.length} fields`) : change.action === 'delete' ? 'deleted' : 'new';
  return (
    <>
      <button type="button" className="plan-head" aria-expanded={open} onClick={toggle}>
        <IconChevronRight size={14} stroke={1.75} className="w-chevron" data-open={open || undefined} aria-hidden />
        <span className="w-sign" data-kind={change.action} aria-hidden>{SIGNS[change.action]}</span>
        <code className={change.action === 'delete' ? 'level-err' : undefined}>{change.key}</code>
        <span className="plan-note">{note}</span>
      </button>
      {open ? <div className="plan-fields"><FieldList changes={change.fields} empty={change.action === 'delete' ? 'The object goes away.' : 'No field differs.'} /></div> : null}
    </>
  );
}

export function PlanView({ plan, openAll = false }: { plan: Pick<Plan, 'objects'>; openAll?: boolean }) {
  const objects = inOrder(plan.objects);
  const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set(openAll || objects.length <= 3 ? objects.map((each) => each.key) : []));
  const toggle = (key: string) => setOpen((old) => {
    const next = new Set(old);
    if (!next.delete(key)) next.add(key);
    return next;
  });
  if (objects.length === 0) return <p className="w-none">Nothing changes.</p>;
  if (objects.length > WHOLE) return <Windowed objects={objects} open={open} toggle={toggle} />;
  return (
    <ul className="plan-list">
      {objects.map((change) => <li key={change.key}><Item change={change} open={open.has(change.key)} toggle={() => toggle(change.key)} /></li>)}
    </ul>
  );
}

function Windowed({ objects, open, toggle }: { objects: ObjectChange[]; open: ReadonlySet<string>; toggle: (key: string) => void }) {
  const host = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count: objects.length, getScrollElement: () => host.current, estimateSize: () => 37, overscan: 6, getItemKey: (index) => objects[index]?.key ?? index });
  return (
    <div className="plan-virtual" ref={host} tabIndex={0} role="list" aria-label={`${objects.length} objects`}>
      <div style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((row) => {
          const change = objects[row.index] as ObjectChange;
          return (
            <div key={row.key} role="listitem" className="plan-item" ref={rows.measureElement} data-index={row.index} style={{ transform: `translateY(${row.start}px)` }}>
              <Item change={change} open={open.has(change.key)} toggle={() => toggle(change.key)} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** The faults of a refused set, each with its place. */
export function FaultList({ faults, limit = 50 }: { faults: readonly SetFault[]; limit?: number }) {
  return (
    <ul className="fault-list" role="alert">
      {faults.slice(0, limit).map((fault, index) => (
        <li key={index}>
          <Mark state="err" label="" />
          <span>
            {fault.line !== undefined ? <><code>line {fault.line}{fault.place ? `, ${fault.place}` : ''}</code> </> : null}
            {fault.key ? <code>{fault.key}{fault.pointer ?? ''} </code> : fault.pointer ? <code>{fault.pointer} </code> : null}
            {fault.reason}
          </span>
        </li>
      ))}
      {faults.length > limit ? <li className="quiet">and {faults.length - limit} more</li> : null}
    </ul>
  );
}

/** The name that a change is stored under; kept in this browser. */
export function AuthorField() {
  const [author, setAuthor] = usePref('author', '');
  return (
    <label className="author-field">
      Author
      <input className="input" value={author} placeholder="your name" maxLength={100} autoComplete="off" onChange={(event) => setAuthor(event.target.value)} />
    </label>
  );
}
