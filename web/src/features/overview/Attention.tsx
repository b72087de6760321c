/** What is wrong, in sentences: at most four lines, the rest folded. One quiet line when all is well. */
import { useState } from 'react';
import type { Attention as Line, Overview } from '../../api/types';
import { Go } from '../../ui/Go';
import { Mark } from '../../ui/Mark';

const LINKS: Record<string, string> = {
  objects_out: 'Open fault', endpoints_down: 'Open upstream', workers_behind: 'Open changes', last_good: 'Open fault',
  memory: 'Open metrics', certificate: 'Open certificate', log_lines_lost: 'Open metrics', writes_fail: 'Open overview', etcd: 'Open overview',
};
const SHOWN = 4;

function quiet(overview: Overview): string {
  const current = overview.workers.filter((each) => each.revision >= overview.revision).length;
  return `Everything is in force: revision ${overview.revision} on ${current} of ${overview.workers.length} workers.`;
}

export function Attention({ overview }: { overview: Overview }) {
  const [all, setAll] = useState(false);
  const lines = overview.attention;
  if (lines.length === 0) return <p className="attention-quiet"><Mark state="ok" label="" /> {quiet(overview)}</p>;
  const shown = all || lines.length <= SHOWN ? lines : lines.slice(0, SHOWN);
  return (
    <section className="card attention" aria-label="Attention">
      <ul>
        {shown.map((line) => <AttentionLine key={line.what + line.title} line={line} />)}
        {shown.length < lines.length && (
          <li><button type="button" className="attention-more" onClick={() => setAll(true)}>and {lines.length - SHOWN} more</button></li>
        )}
      </ul>
    </section>
  );
}

function AttentionLine({ line }: { line: Line }) {
  return (
    <li>
      <Mark state={line.severity} label={line.severity === 'err' ? 'failure' : 'attention'} size={12} />
      <p className="grow"><b>{line.title}</b> <span className="quiet">{line.detail}</span></p>
      {line.link && <Go to={line.link.replace(/^\/ui/, '')} className="attention-link">{LINKS[line.what] ?? 'Open'}</Go>}
    </li>
  );
}
