/** Faults at a field, in the words of the server. */
import type { Fault } from '../validator';

/** The reasons below a field; faults deeper than `base` show their place. */
export function Reasons({ faults, base, id }: { faults: readonly Fault[]; base?: string; id: string }) {
  if (faults.length === 0) return null;
  return (
    <ul className="w-reasons" id={`${id}-faults`}>
      {faults.map((fault) => (
        <li key={fault.pointer + fault.reason}>
          <span aria-hidden>■</span>
          <span>{base !== undefined && fault.pointer !== base ? <code>{fault.pointer.slice(base.length)} </code> : null}{fault.reason}</span>
        </li>
      ))}
    </ul>
  );
}
