/** Applies a resources file: read in the browser, planned by the server, applied only if nothing came in between. */
import { useState, type DragEvent } from 'react';
import { useQueryClient } from '@tanstack/react-query';
import { IconUpload } from '@tabler/icons-react';
import { go } from '../../app/url';
import { ConfirmPlan } from '../../forms/ConfirmPlan';
import { applyText, planText } from '../../forms/plan';
import { keepTyped, readTyped } from '../../forms/typed';
import { Button } from '../../ui/Button';
import { bytes } from '../../ui/format';

/** Longest file that is read, in bytes; the server takes up to 256 MiB from the command line. */
const MOST_BYTES = 32 * 1024 * 1024;
/** Longest text that is shown for editing, in characters. */
const MOST_SHOWN = 200_000;

/** Where a pasted text is kept until it is applied (`typed.ts`). */
const PLACE = 'apply';

export function ApplyFile({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [text, setText] = useState(() => readTyped(PLACE)?.text ?? '');
  const edit = (next: string) => {
    setText(next);
    keepTyped(PLACE, next.trim() === '' || next.length > MOST_SHOWN ? null : { text: next, error: 'The text is not applied.', at: 0 });
  };
  const [file, setFile] = useState<{ name: string; size: number } | null>(null);
  const [keep, setKeep] = useState(false);
  const [over, setOver] = useState(false);
  const [mistake, setMistake] = useState<string | null>(null);
  const [planning, setPlanning] = useState(false);
  const take = async (chosen: File | undefined) => {
    if (!chosen) return;
    if (chosen.size > MOST_BYTES) {
      setMistake(`${chosen.name} has ${bytes(chosen.size)}; from here at most ${bytes(MOST_BYTES)} can be applied. "weir apply" takes larger files.`);
      return;
    }
    setMistake(null);
    setFile({ name: chosen.name, size: chosen.size });
    keepTyped(PLACE, null);
    setText(await chosen.text());
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    void take(event.dataTransfer.files[0]);
  };
  const query = { keep_others: keep ? true : null };
  return (
    <section className="card" aria-label="Apply a file">
      <div className="card-head"><h2>Apply a file</h2><div className="card-right"><Button onClick={onClose}>Close</Button></div></div>
      <div className="changes-file" onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)} onDrop={drop} data-over={over || undefined}>
        <div className="changes-tools">
          <label className="btn btn-plain"><IconUpload size={16} stroke={1.75} aria-hidden /><span>Choose a file</span><input type="file" className="sr" accept=".yaml,.yml,.json" onChange={(event) => void take(event.target.files?.[0])} /></label>
          <span className="dim">{file ? `${file.name}, ${bytes(file.size)}` : 'or drop it here, or paste YAML or JSON'}</span>
        </div>
        {mistake ? <p className="level-err" role="alert">{mistake}</p> : null}
        {text.length <= MOST_SHOWN ? <textarea className="input" aria-label="Text of the file" value={text} spellCheck={false} onChange={(event) => edit(event.target.value)} /> : <p className="dim">The file is too long to be shown; its plan is not.</p>}
        <label className="row"><input type="checkbox" checked={keep} onChange={(event) => setKeep(event.target.checked)} /> Keep objects that the file does not name</label>
        <div className="changes-tools"><Button look="main" disabled={text.trim() === ''} onClick={() => setPlanning(true)}>Show the plan</Button></div>
      </div>
      {planning ? (
        <ConfirmPlan title={file ? `Apply ${file.name}` : 'Apply the file'} onClose={() => setPlanning(false)}
          plan={() => planText(text, query)} apply={(plan) => applyText(text, { ...query, expect: plan.revision })}
          onDone={(applied) => {
            setPlanning(false);
            keepTyped(PLACE, null);
            void client.invalidateQueries();
            go(`/changes/${applied.revision}`);
          }} />
      ) : null}
    </section>
  );
}
