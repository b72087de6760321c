/** A panel at the right edge: beside the page when it is wide, a full sheet on a phone. Escape closes it and the focus returns. */
import { useEffect, useRef, type ReactNode } from 'react';
import { IconX } from '@tabler/icons-react';
import { IconButton } from './Button';
import './drawer.css';

interface Props {
  label: string;
  title: ReactNode;
  tools?: ReactNode;
  children: ReactNode;
  onClose: () => void;
  /** Changes with the content; the focus moves into the drawer when it opens, not at each change. */
  width?: number;
}

export function Drawer({ label, title, tools, children, onClose, width = 545 }: Props) {
  const panel = useRef<HTMLElement>(null);
  const close = useRef(onClose);
  close.current = onClose;
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    panel.current?.focus({ preventScroll: true });
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || event.defaultPrevented) return;
      event.preventDefault();
      close.current();
    };
    document.addEventListener('keydown', onKey);
    return () => {
      document.removeEventListener('keydown', onKey);
      before?.focus?.({ preventScroll: true });
    };
  }, []);
  return (
    <aside ref={panel} className="drawer" aria-label={label} tabIndex={-1} style={{ width }}>
      <header className="drawer-head">
        <div className="grow drawer-title">{title}</div>
        {tools}
        <IconButton label="Close" icon={<IconX size={16} stroke={1.75} />} onClick={onClose} />
      </header>
      <div className="drawer-body">{children}</div>
    </aside>
  );
}
