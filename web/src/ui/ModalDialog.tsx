/**
 * A dialog of the browser itself: it traps the focus, makes the page behind it inert, closes on Escape and returns the
 * focus. Without a title it holds only its content, and `label` names it.
 */
import { useLayoutEffect, useRef, type ReactNode } from 'react';
import { IconX } from '@tabler/icons-react';
import { IconButton } from './Button';
import { useReturnFocus } from './useReturnFocus';
import './modal.css';

interface Props {
  label: string;
  title?: ReactNode;
  width?: number;
  /** At the top of the window, for fields with results below. */
  high?: boolean;
  onClose: () => void;
  children: ReactNode;
}

export function ModalDialog({ label, title, width = 620, high = false, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useReturnFocus();
  useLayoutEffect(() => {
    const element = dialog.current;
    if (element && !element.open) element.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog} className={`modal${high ? ' modal-high' : ''}`} aria-label={label} aria-modal="true" style={{ width }}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      {title !== undefined && (
        <div className="modal-head">
          <h2>{title}</h2>
          <IconButton label="Close" icon={<IconX size={16} stroke={1.75} />} onClick={onClose} />
        </div>
      )}
      {title === undefined ? children : <div className="modal-body" tabIndex={0}>{children}</div>}
    </dialog>
  );
}
