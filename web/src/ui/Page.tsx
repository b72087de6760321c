/** The frame of a page: one `h1`, a quiet remark beside it, actions at the right. */
import { useEffect, type ReactNode } from 'react';
import './page.css';

interface Props {
  title: string;
  /** Shown in place of the title's text, for example a name with a copy button. */
  heading?: ReactNode;
  note?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  /** No margin at the bottom and full height, for pages with a list of their own. */
  full?: boolean;
}

export function Page({ title, heading, note, actions, children, full = false }: Props) {
  useEffect(() => {
    document.title = `${title} · Weir`;
  }, [title]);
  return (
    <div className={`page ${full ? 'page-full' : ''} ${heading === undefined ? 'page-plain' : ''}`}>
      <header className="page-head">
        <h1>{heading ?? title}</h1>
        {note !== undefined && <div className="page-note">{note}</div>}
        {actions !== undefined && <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

/** A card with a heading. */
export function Card({ title, right, children, className, label }: { title?: ReactNode; right?: ReactNode; children: ReactNode; className?: string; label?: string }) {
  return (
    <section className={`card ${className ?? ''}`} aria-label={label ?? (typeof title === 'string' ? title : undefined)}>
      {(title !== undefined || right !== undefined) && (
        <div className="card-head">
          <h2>{title}</h2>
          {right !== undefined && <div className="card-right">{right}</div>}
        </div>
      )}
      {children}
    </section>
  );
}
