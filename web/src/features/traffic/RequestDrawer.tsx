/** The drawer of one request: what happened in a sentence, where to go from here, the timeline, the facts. */
import { IconCopy, IconFilter, IconRoute, IconTargetArrow } from '@tabler/icons-react';
import type { RequestRecord } from '../../api/types';
import { writeCurl } from '../../api/curl';
import { upstreamId } from '../../api/upstreams';
import { handQuestion } from '../../app/handoff';
import { useSession } from '../../app/session';
import { go, href, objectPath } from '../../app/url';
import { Button } from '../../ui/Button';
import { CopyButton, CopyText, copy } from '../../ui/CopyText';
import { Drawer } from '../../ui/Drawer';
import { Go } from '../../ui/Go';
import { Mark } from '../../ui/Mark';
import { Ago } from '../../ui/Values';
import { bytes, clockMillis } from '../../ui/format';
import { Timeline } from './Timeline';
import { story } from './story';

export function statusLevel(status: number): 'err' | 'warn' | 'ok' {
  return status >= 500 ? 'err' : status >= 400 ? 'warn' : 'ok';
}

export function urlOf(record: RequestRecord): string {
  return `${record.scheme}://${record.host}${record.path}`;
}

export function explainRequest(record: RequestRecord): void {
  handQuestion({ method: record.method, url: urlOf(record), headers: [], client: record.client });
  go('/explain', { method: record.method, url: urlOf(record), client: record.client });
}

export function StatusTag({ status }: { status: number }) {
  const level = statusLevel(status);
  return (
    <span className={`status-tag status-${level}`}>
      {level !== 'ok' && <Mark state={level} label="" size={11} />} {status}
    </span>
  );
}

interface Props {
  record: RequestRecord;
  onClose: () => void;
  onFilter: (q: string) => void;
}

export function RequestDrawer({ record, onClose, onFilter }: Props) {
  const { role } = useSession();
  const told = story(record);
  const address = `${window.location.origin}${href('/traffic', { request: record.id })}`;
  return (
    <Drawer
      label={`Request ${record.method} ${record.path}`} onClose={onClose}
      title={<span className="request-title"><StatusTag status={record.status} /> <small className="mono dim">{record.method}</small> <span className="mono ellipsis" title={record.path}>{record.path}</span></span>}
      tools={<CopyButton text={address} label="Copy the address of this request" />}
    >
      <div className="request-story">
        <p><b>{told.lead}</b>{told.rest}</p>
        <div className="request-tools">
          <Button icon={<IconTargetArrow size={16} stroke={1.75} />} onClick={() => explainRequest(record)}>Explain</Button>
          {record.route && <Button icon={<IconRoute size={16} stroke={1.75} />} onClick={() => go(objectPath('routes', record.route!))}>Route</Button>}
          {record.cause && <Button icon={<IconFilter size={16} stroke={1.75} />} onClick={() => onFilter(`cause:${record.cause}`)}>Same cause</Button>}
          <Button icon={<IconCopy size={16} stroke={1.75} />} onClick={() => void copy(writeCurl({ method: record.method, url: urlOf(record) }))}>curl</Button>
        </div>
      </div>
      <Timeline record={record} />
      <dl className="facts">
        <dt>Time</dt><dd>{clockMillis(record.t_ms)}, <Ago ms={record.t_ms} /> ago</dd>
        <dt>Served by</dt><dd>worker {record.worker} under <Go to={`/changes/${record.revision}`}>r{record.revision}</Go></dd>
        <dt>Client</dt><dd className="mono">{record.client} · {record.protocol}{record.scheme === 'https' ? ' · TLS' : ''}</dd>
        <dt>Host</dt><dd className="mono">{record.host}</dd>
        {record.consumer && <><dt>Consumer</dt><dd><Go to={objectPath('consumers', record.consumer)}>{record.consumer}</Go></dd></>}
        {record.route && (
          <>
            <dt>Route</dt>
            <dd>
              <Go to={objectPath('routes', record.route)}>{record.route_name ?? record.route}</Go>
              {record.upstream && <> → upstream <Go to={`/${upstreamId(record.upstream).path}`} search={{ tab: 'endpoints' }}>{upstreamId(record.upstream).label}</Go></>}
            </dd>
          </>
        )}
        {record.endpoint && <><dt>Endpoint</dt><dd className="mono">{record.endpoint}{record.attempts > 1 && <span className="quiet"> · {record.attempts} attempts</span>}</dd></>}
        {record.detail && <><dt>Detail</dt><dd>{record.detail}</dd></>}
        <dt>Bytes</dt><dd>{bytes(record.bytes_in)} in · {bytes(record.bytes_out)} out</dd>
        {role === 'viewer' && <><dt>Query</dt><dd className="quiet">hidden from viewers</dd></>}
        <dt>Request id</dt><dd><CopyText text={record.id} /></dd>
      </dl>
    </Drawer>
  );
}
