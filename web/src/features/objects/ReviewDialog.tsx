/** The dialog before a save: every field that changes, as fields or as text, then one button that writes. */
import { ApiError } from '../../api/client';
import { useStatus } from '../../app/status';
import { Dialog } from '../../forms/Dialog';
import { DiffView } from '../../forms/DiffView';
import { AuthorField, FaultList } from '../../forms/PlanView';
import { faultsOf } from '../../forms/plan';
import { Button } from '../../ui/Button';
import { Problem } from '../../ui/Problem';
import type { Editor } from './useEditor';

export function ReviewDialog({ editor, title, onSave, onClose }: { editor: Editor; title: string; onSave: () => void; onClose: () => void }) {
  const status = useStatus();
  const faults = editor.faults.length + editor.otherFaults.length;
  const blocked = editor.saving || faults > 0 || (!editor.isNew && editor.changes.length === 0);
  const refused = faultsOf(editor.saveError);
  return (
    <Dialog title={title} onClose={onClose} onConfirm={() => !blocked && onSave()} actions={
      <>
        <AuthorField />
        <Button onClick={onClose}>Back</Button>
        <Button look="main" disabled={blocked} onClick={onSave}>{status ? `Save as r${status.revision + 1}` : 'Save'}</Button>
      </>
    }>
      {editor.saveError !== null ? (refused.length > 0 && editor.saveError instanceof ApiError ? <FaultList faults={refused} /> : <Problem title="It was not saved." error={editor.saveError} />) : null}
      {faults > 0 ? <FaultList faults={[...editor.faults, ...editor.otherFaults]} /> : null}
      {editor.verdict?.warnings.map((warning) => <p key={warning.pointer} className="dim"><code>{warning.pointer}</code> {warning.reason}</p>)}
      <DiffView label="Difference of the object" before={editor.isNew ? undefined : editor.base} after={editor.document} changes={editor.changes} />
    </Dialog>
  );
}
