/** Buttons: one main action (`main`) a page, quiet ones otherwise. */
import type { ComponentProps, ReactNode } from 'react';
import './controls.css';

interface Props extends ComponentProps<'button'> {
  look?: 'main' | 'plain' | 'bare' | 'danger';
  icon?: ReactNode;
  /** Whether a toggle is on. */
  pressed?: boolean;
}

export function Button({ look = 'plain', icon, pressed, className, children, type = 'button', ...rest }: Props) {
  return (
    <button {...rest} type={type} aria-pressed={pressed} className={`btn btn-${look} ${className ?? ''}`}>
      {icon}
      {children !== undefined && <span>{children}</span>}
    </button>
  );
}

/** A button that is an icon; the label is read out and shown as the title. */
export function IconButton({ label, icon, className, ...rest }: { label: string; icon: ReactNode } & ComponentProps<'button'>) {
  return (
    <button type="button" {...rest} aria-label={label} title={label} className={`btn btn-icon ${className ?? ''}`}>
      {icon}
    </button>
  );
}

/** A choice of a few, in one line. */
export function Segmented<T extends string>(props: { label: string; value: T; options: { value: T; label: string }[]; onChange: (value: T) => void }) {
  return (
    <div className="segmented" role="group" aria-label={props.label}>
      {props.options.map((option) => (
        <button key={option.value} type="button" aria-pressed={option.value === props.value} onClick={() => props.onChange(option.value)}>
          {option.label}
        </button>
      ))}
    </div>
  );
}

/** A filter that is on or off, with a count. */
export function Chip({ pressed, onClick, mark, count, children }: { pressed: boolean; onClick: () => void; mark?: ReactNode; count?: string; children: ReactNode }) {
  return (
    <button type="button" className="chip" aria-pressed={pressed} onClick={onClick}>
      {mark}
      <span>{children}</span>
      {count !== undefined && <span className="chip-count">{count}</span>}
    </button>
  );
}

/** Tabs of a page or a card, by the tab pattern: arrow keys move, the panel follows. */
export function Tabs<T extends string>(props: { label: string; value: T; options: { value: T; label: ReactNode }[]; onChange: (value: T) => void; panel?: string }) {
  const { options, value } = props;
  const move = (by: number) => {
    const at = options.findIndex((option) => option.value === value);
    const next = options[(at + by + options.length) % options.length];
    if (next) props.onChange(next.value);
  };
  return (
    <div
      className="tabs" role="tablist" aria-label={props.label}
      onKeyDown={(event) => {
        if (event.key !== 'ArrowRight' && event.key !== 'ArrowLeft') return;
        event.preventDefault();
        move(event.key === 'ArrowRight' ? 1 : -1);
        const list = event.currentTarget;
        requestAnimationFrame(() => list.querySelector<HTMLElement>('[aria-selected=true]')?.focus());
      }}
    >
      {options.map((option) => (
        <button
          key={option.value} type="button" role="tab" aria-selected={option.value === value} aria-controls={props.panel}
          tabIndex={option.value === value ? 0 : -1} onClick={() => props.onChange(option.value)}
        >
          {option.label}
        </button>
      ))}
    </div>
  );
}
