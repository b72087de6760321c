/** The frame around every page. */
import { Outlet } from '@tanstack/react-router';
import { useSessionApi } from './session';

export function Shell() {
  const { current } = useSessionApi();
  if (current.state === 'loading') return null;
  if (current.state === 'out' && !current.again) return <p>Sign in</p>;
  return <main id="main"><Outlet /></main>;
}
