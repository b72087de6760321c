/** Cells of the lists, shared by all kinds. */
import type { ReactNode } from 'react';
import { Go } from '../../../ui/Go';
import { Mark, wordOf } from '../../../ui/Mark';
import { Ago, FaultShare } from '../../../ui/Values';
import { absolute, day, duration, rate, span } from '../../../ui/format';
import { objectPath } from '../../../app/url';
import type { ObjectRow } from '../../../api/types';
import type { Column } from './types';

/** The name of a row: its own, otherwise the id. */
export function nameOf(row: ObjectRow): string {
  return row.name ?? row.id;
}

function Name({ row, extra }: { row: ObjectRow; extra?: ReactNode }) {
  const name = nameOf(row);
  return (
    <span className="cell-name" title={name === row.id ? name : `${name} (${row.id})`}>
      <span className={row.state === 'off' ? 'dim' : 'strong'}>{name}</span>
      {row.state !== 'in_force' ? <span className="quiet">{row.state === 'out' ? 'out of force' : wordOf(row.state)}</span> : null}
      {extra}
    </span>
  );
}

/** Host and path of a route, the path stronger. */
export function Match({ row }: { row: ObjectRow }) {
  const host = row.hosts[0] ?? '';
  const path = row.paths[0] ?? '';
  const more = Math.max(row.hosts.length, 1) * Math.max(row.paths.length, 1) - 1;
  return (
    <span className="cell-match" title={[...row.hosts, ...row.paths].join(' ')}>
      <span className="cell-methods">{row.methods.length > 0 ? row.methods.join(' ') : 'any'}</span>
      <span className="cell-path"><span className="dim">{host}</span>{path}{more > 0 ? <span className="quiet"> +{more}</span> : null}</span>
    </span>
  );
}

export const state: Column = { id: 'state', label: 'State', sort: 'state', width: '12px', cell: (row) => <Mark state={row.state} label={row.reason ? `${wordOf(row.state)}: ${row.reason}` : undefined} /> };
export const name: Column = { id: 'name', label: 'Name', sort: 'name', width: 'minmax(150px, 1.6fr)', cell: (row) => <Name row={row} /> };
export const id: Column = { id: 'id', label: 'Id', sort: 'id', width: 'minmax(120px, 1fr)', extra: true, cell: (row) => <code className="ellipsis">{row.id}</code> };
export const desc: Column = { id: 'desc', label: 'Description', width: 'minmax(140px, 1.4fr)', cell: (row) => <span className="ellipsis dim">{row.desc ?? ''}</span> };
export const match: Column = { id: 'match', label: 'Match', width: 'minmax(200px, 2.4fr)', cell: (row) => <Match row={row} /> };
export const hosts: Column = { id: 'hosts', label: 'Hosts', width: 'minmax(140px, 1.4fr)', cell: (row) => <span className="mono ellipsis dim">{row.hosts.join(' ')}</span> };
export const priority: Column = { id: 'priority', label: 'Priority', sort: 'priority', width: '72px', numeric: true, extra: true, cell: (row) => row.priority };

export const upstream: Column = {
  id: 'upstream', label: 'Upstream', width: 'minmax(90px, 1fr)',
  cell: (row) => row.upstream && row.upstream !== '(here)' ? <Go className="cell-link" tabIndex={-1} to={objectPath('upstreams', row.upstream)}>{row.upstream}</Go> : <span className="quiet">{row.upstream === '(here)' ? 'nodes here' : row.service ? `service ${row.service}` : ''}</span>,
};
export const service: Column = {
  id: 'service', label: 'Service', width: 'minmax(90px, 1fr)', extra: true,
  cell: (row) => row.service ? <Go className="cell-link" tabIndex={-1} to={objectPath('services', row.service)}>{row.service}</Go> : null,
};
export const plugins: Column = {
  id: 'plugins', label: 'Plugins', width: 'minmax(120px, 1.1fr)',
  cell: (row) => row.plugins.length > 0 ? <span className="cell-plugins" title={row.plugins.join(', ')}><span className="tag">{row.plugins[0]}</span>{row.plugins.length > 1 ? <span className="quiet">+{row.plugins.length - 1}</span> : null}</span> : null,
};
export const labels: Column = {
  id: 'labels', label: 'Labels', width: 'minmax(110px, 1fr)', extra: true,
  cell: (row) => <span className="cell-plugins">{Object.entries(row.labels).slice(0, 2).map(([key, value]) => <span key={key} className="tag">{key}:{value}</span>)}</span>,
};
export const rps: Column = { id: 'rps', label: 'Req/s', sort: 'rps', width: '64px', numeric: true, cell: (row) => rate(row.rps) };
export const p5xx: Column = { id: 'p5xx', label: '5xx', sort: 'p5xx', width: '72px', numeric: true, cell: (row) => row.rps === 0 && row.p5xx == null ? <span className="quiet">–</span> : <FaultShare value={row.p5xx} /> };
export const p99: Column = { id: 'p99', label: 'p99', sort: 'p99_us', width: '84px', numeric: true, cell: (row) => row.p99_us == null ? <span className="quiet">–</span> : duration(row.p99_us) };
/** Older times are dates, because an age in hundreds of days says nothing. */
const OLD_MS = 60 * 86_400_000;

/** The age of a time as a cell shows it, or its day. */
function Age({ ms }: { ms: number | null }) {
  return <span className="quiet">{ms !== null && Date.now() - ms > OLD_MS ? <time dateTime={new Date(ms).toISOString()} title={absolute(ms)}>{day(ms)}</time> : <Ago ms={ms} />}</span>;
}

/** "38 min ago", or the day of an older time. */
export function Since({ ms }: { ms: number | null | undefined }) {
  if (ms == null) return <span className="quiet">at an unknown time</span>;
  return Date.now() - ms > OLD_MS ? <>on <Age ms={ms} /></> : <><Ago ms={ms} /> ago</>;
}
export const changed: Column = { id: 'changed', label: 'Changed', sort: 'updated_ms', width: '92px', numeric: true, cell: (row) => <Age ms={row.updated_ms} /> };
export const created: Column = { id: 'created', label: 'Created', sort: 'created_ms', width: '92px', numeric: true, extra: true, cell: (row) => <Age ms={row.created_ms} /> };
export const usedBy: Column = { id: 'used_by', label: 'Used by', sort: 'used_by', width: '72px', numeric: true, cell: (row) => row.used_by ?? <span className="quiet">–</span> };
export const type: Column = { id: 'type', label: 'Type', width: 'minmax(90px, 0.8fr)', cell: (row) => <span className="dim">{row.type ?? ''}</span> };

/** The endpoints of an upstream: how many, and how many of them are down. */
export const nodes: Column = {
  id: 'nodes', label: 'Endpoints', sort: 'nodes', width: 'minmax(140px, 1.2fr)',
  cell: (row) => {
    const [all, down] = [row.nodes ?? 0, row.down ?? 0];
    const shown = Math.min(all, 8);
    const bad = Math.min(down, shown);
    return (
      <span className="cell-nodes" role="img" aria-label={`${all} endpoints, ${down} down`}>
        {Array.from({ length: shown }, (_, at) => <Mark key={at} state={at >= shown - bad ? 'down' : 'up'} label="" size={9} />)}
        <span className={down > 0 ? 'level-err' : 'quiet'}>{down > 0 ? `${down} of ${all} down` : all > shown ? `+${all - shown}` : ''}</span>
      </span>
    );
  },
};
export const names: Column = { id: 'names', label: 'Names', width: 'minmax(180px, 2fr)', cell: (row) => <span className="mono ellipsis">{(row.names ?? []).join('  ')}</span> };
export const issuer: Column = { id: 'issuer', label: 'Issuer', width: 'minmax(110px, 1fr)', cell: (row) => <span className="dim ellipsis">{row.issuer ?? ''}</span> };

const DAY_MS = 86_400_000;

/** The time that a certificate is still valid; amber from 14 days, red when it has expired. */
export function Expiry({ ms }: { ms: number | null | undefined }) {
  if (ms == null) return <span className="quiet">–</span>;
  const left = ms - Date.now();
  const level = left <= 0 ? 'level-err' : left < 14 * DAY_MS ? 'level-warn' : '';
  return <span className={level} title={day(ms)}>{left <= 0 ? 'expired' : span(left)} <span className="quiet">({day(ms)})</span></span>;
}
export const expiry: Column = { id: 'not_after', label: 'Expires in', sort: 'not_after_ms', width: 'minmax(150px, 1fr)', cell: (row) => <Expiry ms={row.not_after_ms} /> };
export const group: Column = { id: 'group', label: 'Group', width: 'minmax(90px, 0.8fr)', cell: (row) => row.group ? <Go className="cell-link" tabIndex={-1} to={objectPath('consumer_groups', row.group)}>{row.group}</Go> : null };
export const credentials: Column = { id: 'credentials', label: 'Credentials', width: '96px', numeric: true, cell: (row) => row.credentials ?? 0 };
export const routes: Column = { id: 'routes', label: 'Routes', width: '72px', numeric: true, cell: (row) => row.routes ?? <span className="quiet">–</span> };
export const manager: Column = { id: 'manager', label: 'Manager', width: 'minmax(90px, 0.8fr)', cell: (row) => <span className="dim">{row.manager ?? row.id.split('/')[0]}</span> };
