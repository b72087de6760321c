/** Whether a media query holds, followed while it changes. */
import { useSyncExternalStore } from 'react';
import { PHONE_PX } from '../tokens/tokens';

export function useMedia(query: string): boolean {
  return useSyncExternalStore(
    (listener) => {
      const list = window.matchMedia(query);
      list.addEventListener('change', listener);
      return () => list.removeEventListener('change', listener);
    },
    () => window.matchMedia(query).matches,
  );
}

export function usePhone(): boolean {
  return useMedia(`(max-width: ${PHONE_PX - 1}px)`);
}
