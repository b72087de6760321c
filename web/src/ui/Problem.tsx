/** Things that stand in place of content: an error, an empty list, a skeleton. */
import { useEffect, useState, type ReactNode } from 'react';
import { ApiError } from '../api/client';
import { Button } from './Button';
import { CopyText } from './CopyText';
import { Mark } from './Mark';
import './problem.css';

/** The text of an error, the server's own words where there are any. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** An error where it arose: what is wrong, the server's words, a way on. */
export function Problem({ title, error, detail, retry, children }: { title?: string; error?: unknown; detail?: ReactNode; retry?: () => void; children?: ReactNode }) {
  const status = error instanceof ApiError && error.status > 0 ? ` (${error.status})` : '';
  return (
    <div className="problem card" role="alert">
      <Mark state="err" label="" size={12} />
      <div className="grow">
        <div className="strong">{title ?? 'This could not be loaded.'}{status}</div>
        {error !== undefined && <div className="dim">{errorText(error)}</div>}
        {detail !== undefined && <div className="dim">{detail}</div>}
        {children}
      </div>
      {retry && <Button onClick={retry}>Try again</Button>}
    </div>
  );
}

/** An empty place says what to do: one sentence, one action, one command to copy. */
export function Empty({ title, action, curl, children }: { title: string; action?: ReactNode; curl?: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p>{title}</p>
      {children}
      {action}
      {curl !== undefined && <CopyText text={curl} block />}
    </div>
  );
}

/** Nothing for 200 ms, then a quiet block of the final height. */
export function Skeleton({ height, lines }: { height?: number; lines?: number }) {
  const [shown, show] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => show(true), 200);
    return () => window.clearTimeout(timer);
  }, []);
  const full = height ?? (lines ?? 1) * 36;
  return (
    <div className="skeleton" data-shown={shown} style={{ height: full }} aria-busy="true">
      <span className="sr">Loading</span>
      {shown && Array.from({ length: lines ?? 0 }, (_, at) => <i key={at} style={{ width: `${45 + ((at * 37) % 50)}%` }} />)}
    </div>
  );
}
