/** The dialog before a change: the plan as the server made it, then one button that applies exactly this plan. */
import { useEffect, useState, type ReactNode } from 'react';
import { ApiError } from '../api/client';
import { Button } from '../ui/Button';
import { Problem, Skeleton } from '../ui/Problem';
import { Dialog } from './Dialog';
import { AuthorField, FaultList, PlanView } from './PlanView';
import { faultsOf, sentenceOf, type Applied, type Plan } from './plan';

interface Props {
  title: string;
  /** Asks for the plan; called again after a conflict. */
  plan: () => Promise<Plan>;
  /** Carries the plan out if the instance is still at its revision. */
  apply: (plan: Plan) => Promise<Applied>;
  onDone: (applied: Applied) => void;
  onClose: () => void;
  word?: string;
  danger?: boolean;
  before?: ReactNode;
}

export function ConfirmPlan({ title, plan, apply, onDone, onClose, word = 'Apply', danger = false, before }: Props) {
  const [made, setMade] = useState<Plan | null>(null);
  const [previous, setPrevious] = useState<{ plan: Plan; message: string } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [round, setRound] = useState(0);

  useEffect(() => {
    let live = true;
    setMade(null);
    plan().then((next) => live && setMade(next), (cause: unknown) => live && setError(cause));
    return () => {
      live = false;
    };
    // A new round asks again; the functions of the caller are made anew at each drawing.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [round]);

  const run = async () => {
    if (!made || busy || made.objects.length === 0) return;
    setBusy(true);
    setError(null);
    try {
      onDone(await apply(made));
    } catch (cause) {
      if (cause instanceof ApiError && cause.status === 409) {
        setPrevious({ plan: made, message: cause.message });
        setRound((old) => old + 1);
      } else setError(cause);
    } finally {
      setBusy(false);
    }
  };
  const faults = faultsOf(error);
  return (
    <Dialog title={title} onClose={onClose} onConfirm={() => void run()} size={previous ? 1040 : 720} actions={
      <>
        <AuthorField />
        <Button onClick={onClose}>Cancel</Button>
        <Button look={danger ? 'danger' : 'main'} disabled={!made || busy || made.objects.length === 0} onClick={() => void run()}>
          {made ? `${word}${made.objects.length > 0 ? ` if still r${made.revision}` : ''}` : word}
        </Button>
      </>
    }>
      {before}
      {previous ? <Problem title="The configuration was changed in the meantime. This is the new plan." detail={previous.message} /> : null}
      {error !== null ? (faults.length > 0 ? <FaultList faults={faults} /> : <Problem title="The plan could not be made or applied." error={error} retry={() => { setError(null); setRound((old) => old + 1); }} />) : null}
      {made ? (
        previous ? (
          <div className="w-sides">
            <div><h3>New plan: {sentenceOf(made)}</h3><PlanView plan={made} /></div>
            <div><h3>Previous plan at r{previous.plan.revision}</h3><PlanView plan={previous.plan} /></div>
          </div>
        ) : (
          <>
            <p>Against r{made.revision}: <span className="strong">{sentenceOf(made)}</span>.{made.objects.length > 0 ? ` r${made.revision} is the revision to return to.` : ''}</p>
            <PlanView plan={made} />
          </>
        )
      ) : error === null ? <Skeleton lines={3} /> : null}
    </Dialog>
  );
}
