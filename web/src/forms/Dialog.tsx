/** A dialog: it traps the focus, returns it, and Escape closes it. */
import type { ReactNode } from 'react';
import { Modal } from '@mantine/core';
import './dialog.css';

interface Props {
  title: string;
  children: ReactNode;
  /** Buttons at the bottom. */
  actions: ReactNode;
  onClose: () => void;
  size?: number;
  /** Called for Ctrl Enter. */
  onConfirm?: () => void;
}

export function Dialog({ title, children, actions, onClose, size = 720, onConfirm }: Props) {
  return (
    <Modal opened onClose={onClose} title={title} size={size} closeButtonProps={{ 'aria-label': 'Close' }} transitionProps={{ duration: 0 }} classNames={{ content: 'dialog', header: 'dialog-head', title: 'dialog-title', body: 'dialog-body' }}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && onConfirm) {
          event.preventDefault();
          onConfirm();
        }
      }}>
      <div className="dialog-content">{children}</div>
      <footer className="dialog-actions">{actions}</footer>
    </Modal>
  );
}
