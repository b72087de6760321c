/** The frame around every page: navigation, top bar, dialogs of the keyboard, the bar of a lost connection. */
import { Suspense, lazy, useCallback, useEffect, useRef, useState } from 'react';
import { Outlet } from '@tanstack/react-router';
import { Skeleton } from '../ui/Problem';
import { ConnectionBar } from './ConnectionBar';
import { EventsProvider } from './events';
import { NavBar, PhoneTabs } from './NavBar';
import { pageOfPath } from './pages';
import { visit } from './prefs';
import { useSessionApi } from './session';
import { useShortcuts } from './shortcuts';
import { TopBar } from './TopBar';
import { usePathname } from './url';
import './shell.css';

const Palette = lazy(() => import('./Palette'));
const KeysDialog = lazy(() => import('./KeysDialog'));
const LoginPage = lazy(() => import('../features/login/LoginPage'));

export function Shell() {
  const { current } = useSessionApi();
  if (current.state === 'loading') return <div className="shell-wait" aria-busy="true"><span className="sr">Loading</span></div>;
  const isOut = current.state === 'out';
  return (
    <>
      {(!isOut || current.again) && <Frame hidden={isOut} />}
      {isOut && (
        <Suspense fallback={null}>
          <LoginPage reason={current.reason} />
        </Suspense>
      )}
    </>
  );
}

function Frame({ hidden }: { hidden: boolean }) {
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const main = useRef<HTMLElement>(null);
  const path = usePathname();
  const openPalette = useCallback(() => setPalette(true), []);
  const openHelp = useCallback(() => setHelp(true), []);
  useShortcuts({ onPalette: openPalette, onHelp: openHelp, enabled: !hidden });
  useEffect(() => {
    const own = path.replace(/^\/ui/, '');
    const parts = own.split('/').filter(Boolean).map(decodeURIComponent);
    const page = pageOfPath(own)?.page;
    if (page && parts.length > 1 && parts[1] !== 'new') visit(own, `${page.label} › ${parts.slice(1).join('/')}`);
    main.current?.scrollTo(0, 0);
  }, [path]);
  return (
    <EventsProvider active={!hidden}>
      <div className="shell" inert={hidden} data-hidden={hidden}>
        <a className="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
        <NavBar onHelp={openHelp} />
        <TopBar onPalette={openPalette} />
        <main id="main" ref={main} tabIndex={-1}>
          <ConnectionBar />
          <Suspense fallback={<Skeleton height={400} />}>
            <Outlet />
          </Suspense>
        </main>
        <PhoneTabs />
        <Suspense fallback={null}>
          {palette && <Palette onClose={() => setPalette(false)} />}
          {help && <KeysDialog onClose={() => setHelp(false)} />}
        </Suspense>
      </div>
    </EventsProvider>
  );
}
