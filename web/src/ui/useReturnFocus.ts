/** Gives the focus back to the element that had it when a dialog was opened. */
import { useEffect, useState } from 'react';

export function useReturnFocus(): void {
  const [before] = useState(() => document.activeElement as HTMLElement | null);
  useEffect(() => () => {
    // After the focus trap of the dialog has let go.
    window.setTimeout(() => {
      if (before?.isConnected && (document.activeElement === document.body || document.activeElement === null)) before.focus({ preventScroll: true });
    });
  }, [before]);
}
