/** The navigation: at the left with groups and counts, and four tabs below on a phone. */
import { useEffect, useState } from 'react';
import { IconDots, IconHelpCircle, IconLayoutSidebarLeftCollapse, IconLayoutSidebarLeftExpand, IconMenu2 } from '@tabler/icons-react';
import { Go } from '../ui/Go';
import { Mark } from '../ui/Mark';
import { count } from '../ui/format';
import { useConnection } from './connection';
import { PageIcon } from './icons';
import { Logo } from './Logo';
import { GROUPS, type Group, type Page } from './pages';
import { usePref } from './prefs';
import { useSession } from './session';
import { useStatus, type Status } from './status';
import { usePathname } from './url';
import './nav.css';

const TABS = ['/overview', '/traffic', '/routes'];

function isShown(page: Page, status: Status | undefined, kinds: string[]): boolean {
  if (!page.rare || !page.kind) return true;
  return (status?.objects[page.kind] ?? 0) > 0 || (kinds.includes(page.kind) && page.kind !== 'stream_routes' && status === undefined);
}

/** Groups with the pages that this instance uses, and the others. */
function divided(status: Status | undefined, kinds: string[]): { groups: Group[]; rest: Page[] } {
  const groups = GROUPS.map((group) => ({ ...group, pages: group.pages.filter((page) => isShown(page, status, kinds)) }));
  const rest = GROUPS.flatMap((group) => group.pages).filter((page) => !isShown(page, status, kinds));
  return { groups, rest };
}

function NavItem({ page, current, status, small }: { page: Page; current: boolean; status?: Status; small: boolean }) {
  const objects = page.kind ? status?.objects[page.kind] : undefined;
  const faults = page.path === '/faults' ? (status?.faults.length ?? 0) : 0;
  return (
    <li>
      <Go to={page.path} className="nav-item" aria-current={current ? 'page' : undefined} title={small ? page.label : undefined}>
        <PageIcon path={page.path} />
        <span className="nav-label">{page.label}</span>
        {objects !== undefined && <span className="nav-count">{count(objects)}</span>}
        {faults > 0 && <span className="nav-badge">{faults}<span className="sr"> faults</span></span>}
      </Go>
    </li>
  );
}

export function NavBar({ onHelp }: { onHelp: () => void }) {
  const session = useSession();
  const status = useStatus();
  const path = usePathname().replace(/^\/ui/, '');
  const { connected } = useConnection();
  const [collapsed, setCollapsed] = usePref('nav', 'wide');
  const [more, setMore] = useState(false);
  const small = collapsed === 'small';
  const { groups, rest } = divided(status, session.kinds);
  const isCurrent = (page: Page) => path === page.path || path.startsWith(`${page.path}/`);
  const showRest = more || rest.some(isCurrent);
  return (
    <nav className="nav" aria-label="Main" data-small={small}>
      <Go to="/overview" className="nav-brand" aria-label="Weir, overview"><Logo /><span className="nav-label">Weir</span></Go>
      <div className="nav-instance card" title={`${session.instance}, emulates APISIX ${session.emulates}`}>
        <Mark state={connected ? 'up' : 'down'} label={connected ? 'connected' : 'not connected'} />
        <div className="nav-label">
          <div className="strong ellipsis">{session.instance}</div>
          <div className="quiet ellipsis">{session.source} · {session.version}</div>
        </div>
      </div>
      <div className="nav-groups">
        {groups.map((group) => group.pages.length > 0 && (
          <div key={group.label ?? ''} role="group" aria-label={group.label ?? 'Live'}>
            {group.label && <div className="nav-group" aria-hidden="true">{group.label}</div>}
            <ul>
              {group.pages.map((page) => <NavItem key={page.path} page={page} current={isCurrent(page)} status={status} small={small} />)}
            </ul>
          </div>
        ))}
        {rest.length > 0 && (
          <div role="group" aria-label="More">
            <button type="button" className="nav-item nav-more" aria-expanded={showRest} onClick={() => setMore(!more)} title={small ? 'More' : undefined}>
              <IconDots size={16} stroke={1.75} aria-hidden="true" /><span className="nav-label">More</span>
            </button>
            {showRest && <ul>{rest.map((page) => <NavItem key={page.path} page={page} current={isCurrent(page)} status={status} small={small} />)}</ul>}
          </div>
        )}
      </div>
      <div className="nav-foot">
        <button type="button" className="nav-item" onClick={onHelp} title={small ? 'Help' : undefined}>
          <IconHelpCircle size={16} stroke={1.75} aria-hidden="true" /><span className="nav-label">Help</span><kbd className="kbd nav-label">?</kbd>
        </button>
        <button type="button" className="nav-item nav-collapse" onClick={() => setCollapsed(small ? 'wide' : 'small')} aria-label={small ? 'Widen the navigation' : 'Narrow the navigation'}>
          {small ? <IconLayoutSidebarLeftExpand size={16} stroke={1.75} /> : <IconLayoutSidebarLeftCollapse size={16} stroke={1.75} />}
        </button>
      </div>
    </nav>
  );
}

/** Four tabs at the bottom of a phone; the last one opens all pages. */
export function PhoneTabs() {
  const path = usePathname().replace(/^\/ui/, '');
  const status = useStatus();
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [path]);
  useEffect(() => {
    if (!open) return;
    const onKey = (event: KeyboardEvent) => event.key === 'Escape' && setOpen(false);
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [open]);
  const pages = GROUPS.flatMap((group) => group.pages);
  return (
    <>
      {open && (
        <div className="phone-more" role="dialog" aria-label="All pages" aria-modal="true">
          {GROUPS.map((group) => (
            <div key={group.label ?? ''}>
              {group.label && <h2 className="nav-group">{group.label}</h2>}
              <ul>{group.pages.map((page) => <NavItem key={page.path} page={page} current={path.startsWith(page.path)} status={status} small={false} />)}</ul>
            </div>
          ))}
        </div>
      )}
      <nav className="phone-tabs" aria-label="Tabs">
        {pages.filter((page) => TABS.includes(page.path)).map((page) => (
          <Go key={page.path} to={page.path} aria-current={path.startsWith(page.path) && !open ? 'page' : undefined}>
            <PageIcon path={page.path} size={18} />
            {page.label}
          </Go>
        ))}
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
          <IconMenu2 size={18} stroke={1.75} aria-hidden="true" />
          More
        </button>
      </nav>
    </>
  );
}
