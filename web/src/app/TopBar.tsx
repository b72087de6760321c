/** The bar on top: where the page is, the palette, the revision, the theme, the role. */
import { Menu, Popover, useMantineColorScheme } from '@mantine/core';
import { IconDeviceDesktop, IconLogout, IconMoon, IconSearch, IconShieldCheck, IconSun } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { get } from '../api/client';
import { keys } from '../api/keys';
import type { Versions } from '../api/types';
import { IconButton } from '../ui/Button';
import { CopyButton } from '../ui/CopyText';
import { Go } from '../ui/Go';
import { Mark } from '../ui/Mark';
import { Ago } from '../ui/Values';
import { isUtc, setUtc } from '../ui/format';
import { queries } from './query';
import { Logo } from './Logo';
import { pageOfPath } from './pages';
import { usePref } from './prefs';
import { useSession, useSessionApi } from './session';
import { useStatus } from './status';
import { usePathname } from './url';

function Crumbs() {
  const path = usePathname().replace(/^\/ui/, '');
  const found = pageOfPath(path);
  const rest = path.split('/').slice(2).filter(Boolean).map(decodeURIComponent).join('/');
  return (
    <nav className="crumbs" aria-label="Breadcrumb">
      <ol>
        {found?.group.label && <li>{found.group.label}</li>}
        {found && (rest ? <li><Go to={found.page.path}>{found.page.label}</Go></li> : <li aria-current="page">{found.page.label}</li>)}
        {rest && (
          <li aria-current="page">
            <span className="crumb-last"><span className="ellipsis">{rest}</span>{rest !== 'new' && <CopyButton text={rest} label="Copy the name" />}</span>
          </li>
        )}
      </ol>
    </nav>
  );
}

function RevisionChip() {
  const status = useStatus();
  if (!status) return null;
  const behind = status.workers.filter((each) => each.revision < status.revision);
  const current = status.workers.length - behind.length;
  return (
    <Popover position="bottom-end" shadow="none" trapFocus returnFocus transitionProps={{ duration: 0 }}>
      <Popover.Target>
        <button type="button" className="rev">
          <Mark state={behind.length ? 'warn' : 'ok'} label="" />
          <span><span className="sr">Revision </span>r{status.revision}<span className="rev-workers"> · {current} of {status.workers.length} workers</span></span>
        </button>
      </Popover.Target>
      <Popover.Dropdown>
        <Workers workers={status.workers} revision={status.revision} />
      </Popover.Dropdown>
    </Popover>
  );
}

function Workers({ workers, revision }: { workers: { worker: number; revision: number }[]; revision: number }) {
  const { data } = useQuery({
    queryKey: keys.versions({ limit: 1 }),
    queryFn: ({ signal }) => get<Versions>('weir/versions', { limit: 1 }, signal),
  });
  const last = data?.versions[0];
  return (
    <div className="rev-list" tabIndex={-1} data-autofocus="">
      <h2>Revision {revision}</h2>
      <ul>
        {workers.map((each) => (
          <li key={each.worker}>
            <span>Worker {each.worker}</span>
            <span>r{each.revision} {each.revision < revision && <Mark state="warn" label="behind" />}</span>
          </li>
        ))}
      </ul>
      {last && (
        <p className="rev-last">
          Last change: <Go to={`/changes/${last.version}`}>r{last.version}</Go> by {last.by ?? 'an unnamed author'}, {last.source}, <Ago ms={last.at_ms} /> ago
        </p>
      )}
    </div>
  );
}

function ThemeMenu() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const options = [
    { value: 'light', label: 'Light', icon: IconSun },
    { value: 'dark', label: 'Dark', icon: IconMoon },
    { value: 'auto', label: 'As the system', icon: IconDeviceDesktop },
  ] as const;
  return (
    <Menu position="bottom-end" shadow="none" transitionProps={{ duration: 0 }}>
      <Menu.Target>
        <IconButton label="Theme" icon={<IconMoon size={16} stroke={1.75} />} />
      </Menu.Target>
      <Menu.Dropdown>
        {options.map(({ value, label, icon: Shape }) => (
          <Menu.Item key={value} leftSection={<Shape size={16} stroke={1.75} />} rightSection={colorScheme === value ? '✓' : undefined} onClick={() => setColorScheme(value)}>
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function RoleMenu() {
  const session = useSession();
  const { signOut } = useSessionApi();
  const [letters, setLetters] = usePref('letters', 'on');
  return (
    <Menu position="bottom-end" shadow="none" transitionProps={{ duration: 0 }} width={240}>
      <Menu.Target>
        <button type="button" className="role" aria-label={`Signed in as ${session.role}`}>
          <IconShieldCheck size={16} stroke={1.75} aria-hidden="true" />
          <span>{session.name ?? session.role}</span>
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{session.role === 'admin' ? 'This key may read and write.' : 'This key may only read.'}</Menu.Label>
        <Menu.Item
          rightSection={isUtc() ? '✓' : undefined}
          onClick={() => {
            setUtc(!isUtc());
            void queries.invalidateQueries();
          }}
        >
          Times in UTC
        </Menu.Item>
        <Menu.Item rightSection={letters === 'on' ? '✓' : undefined} onClick={() => setLetters(letters === 'on' ? 'off' : 'on')}>
          Single-letter keys
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogout size={16} stroke={1.75} />} onClick={() => signOut()}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

export function TopBar({ onPalette }: { onPalette: () => void }) {
  return (
    <header className="top">
      <Go to="/overview" className="only-phone" aria-label="Weir, overview"><Logo /></Go>
      <Crumbs />
      <button type="button" className="top-search" onClick={onPalette}>
        <IconSearch size={16} stroke={1.75} aria-hidden="true" />
        <span>Search, jump or run a command</span>
        <kbd className="kbd">Ctrl K</kbd>
      </button>
      <RevisionChip />
      <ThemeMenu />
      <IconButton className="only-phone" label="Search" icon={<IconSearch size={16} stroke={1.75} />} onClick={onPalette} />
      <RoleMenu />
    </header>
  );
}
