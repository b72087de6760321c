/** A short look at a row beside the list. */
import { useQuery } from '@tanstack/react-query';
import { get } from '../../api/client';
import { keys } from '../../api/keys';
import type { ObjectRow, Usage } from '../../api/types';
import { objectPath } from '../../app/url';
import { Drawer } from '../../ui/Drawer';
import { Go } from '../../ui/Go';
import { Mark, StateText } from '../../ui/Mark';
import { FaultShare } from '../../ui/Values';
import { duration, rate } from '../../ui/format';
import { Since, nameOf } from './kinds/cells';
import type { Kind } from './kinds/types';
import { adminPath } from './sets';

export function Peek({ kind, row, onClose }: { kind: Kind; row: ObjectRow; onClose: () => void }) {
  const usage = useQuery({ queryKey: keys.usage(kind.kind, row.id), queryFn: ({ signal }) => get<Usage>(`weir/usage/${adminPath(kind.kind, row.id)}`, undefined, signal) });
  const path = objectPath(kind.kind, row.id);
  const facts: [string, React.ReactNode][] = [
    ['State', <StateText key="s" state={row.state} />],
    ...(row.reason ? [['Reason', <span key="r" className="level-err">{row.reason}</span>] as [string, React.ReactNode]] : []),
    ['Id', <code key="i">{row.id}</code>],
    ...(row.desc ? [['Description', row.desc] as [string, React.ReactNode]] : []),
    ...(row.methods.length > 0 ? [['Methods', row.methods.join(', ')] as [string, React.ReactNode]] : []),
    ...(row.hosts.length > 0 ? [['Hosts', <code key="h">{row.hosts.join(' ')}</code>] as [string, React.ReactNode]] : []),
    ...(row.paths.length > 0 ? [['Paths', <code key="p">{row.paths.join(' ')}</code>] as [string, React.ReactNode]] : []),
    ...(row.upstream && row.upstream !== '(here)' ? [['Upstream', <Go key="u" to={objectPath('upstreams', row.upstream)}>{row.upstream}</Go>] as [string, React.ReactNode]] : []),
    ...(row.service ? [['Service', <Go key="v" to={objectPath('services', row.service)}>{row.service}</Go>] as [string, React.ReactNode]] : []),
    ...(row.plugins.length > 0 ? [['Plugins', row.plugins.join(', ')] as [string, React.ReactNode]] : []),
    ...(Object.keys(row.labels).length > 0 ? [['Labels', Object.entries(row.labels).map(([key, value]) => `${key}:${value}`).join('  ')] as [string, React.ReactNode]] : []),
    ...(row.rps != null ? [['Traffic', <span key="t">{rate(row.rps)} /s, 5xx <FaultShare value={row.p5xx} />, p99 {duration(row.p99_us)}</span>] as [string, React.ReactNode]] : []),
    ['Changed', <span key="c"><Since ms={row.updated_ms} /></span>],
    ['Used by', usage.data ? (usage.data.total === 0 ? 'nothing' : <span key="b">{usage.data.used_by.slice(0, 6).map((use, index) => <span key={use.kind + use.id}>{index > 0 ? ', ' : ''}<Go to={objectPath(use.kind, use.id)}>{use.id}</Go></span>)}{usage.data.total > 6 ? ` and ${usage.data.total - 6} more` : ''}</span>) : '–'],
  ];
  return (
    <Drawer label={`${kind.one} ${nameOf(row)}`} title={<span className="row"><Mark state={row.state} label="" /> {nameOf(row)}</span>} onClose={onClose} width={420}>
      <dl className="peek-list">{facts.map(([name, value]) => <div key={name} style={{ display: 'contents' }}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      <div className="peek-actions">
        <Go className="btn btn-main" to={path}>Open</Go>
        <Go className="btn btn-plain" to={path} search={{ tab: 'history' }}>History</Go>
        <Go className="btn btn-plain" to={path} search={{ tab: 'source' }}>Source</Go>
      </div>
    </Drawer>
  );
}
