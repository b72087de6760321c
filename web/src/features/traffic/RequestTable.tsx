/** The list of requests: rows of one height, drawn only where they are seen. */
import { useEffect, useRef, type KeyboardEvent } from 'react';
import { useVirtualizer } from '@tanstack/react-virtual';
import type { RequestRecord } from '../../api/types';
import { Mark } from '../../ui/Mark';
import { bytes, clockMillis, millis } from '../../ui/format';
import { statusLevel } from './RequestDrawer';

const ROW = 36;
const ROW_PHONE = 60;

interface Props {
  records: RequestRecord[];
  selected: string | null;
  cursor: number;
  phone: boolean;
  wide: boolean;
  onCursor: (at: number) => void;
  onOpen: (record: RequestRecord) => void;
  onTop: (isAtTop: boolean) => void;
  onHover: (isHovered: boolean) => void;
}

/** The filter for one cell: `data-field` and `data-value` of the element under the focus. */
export function cellFilter(record: RequestRecord, field: string): string | null {
  const values: Record<string, string | number | null> = {
    status: record.status, method: record.method, path: record.path.split('?')[0] ?? '', cause: record.cause, host: record.host, route: record.route,
    client: record.client, consumer: record.consumer, endpoint: record.endpoint,
  };
  const value = values[field];
  if (value === null || value === undefined) return null;
  const text = String(value);
  return `${field}:${/\s/.test(text) ? `"${text}"` : text}`;
}

function Cells({ record, wide }: { record: RequestRecord; wide: boolean }) {
  const level = statusLevel(record.status);
  const total = Math.max(record.total_us, 1);
  const gateway = Math.min(1, (record.gateway_us ?? 0) / total);
  const endpoint = record.upstream_us ? 1 - gateway : 0;
  return (
    <>
      <span role="gridcell" className="t-time dim" data-field="">{clockMillis(record.t_ms)}</span>
      <span role="gridcell" className={`t-status strong level-${level}`} data-field="status">{level !== 'ok' && <Mark state={level} label="" size={11} />}{record.status}</span>
      <span role="gridcell" className="t-request mono ellipsis" data-field="path" title={`${record.host}${record.path}`}><small>{record.method}</small> {record.path}</span>
      {wide && <span role="gridcell" className="t-host dim ellipsis" data-field="host">{record.host}</span>}
      {wide && <span role="gridcell" className="t-route ellipsis" data-field="route">{record.route_name ?? record.route ?? '–'}</span>}
      {wide && <span role="gridcell" className="t-consumer ellipsis dim" data-field="consumer">{record.consumer ?? '–'}</span>}
      {wide && <span role="gridcell" className="t-endpoint mono ellipsis dim" data-field="endpoint">{record.endpoint ?? '–'}{record.attempts > 1 && ` ×${record.attempts}`}</span>}
      {wide && <span role="gridcell" className="t-bytes num dim" data-field="">{bytes(record.bytes_out)}</span>}
      <span role="gridcell" className={`t-cause ellipsis ${record.status >= 500 ? 'level-err' : 'dim'}`} data-field="cause">{record.cause ?? ''}</span>
      <span role="gridcell" className="t-total num">{millis(record.total_us)}</span>
      <span role="gridcell" className="t-bar" aria-label={`gateway ${Math.round(gateway * 100)} %`}>
        <i className="span-gateway" style={{ width: `${(endpoint === 0 ? 1 : Math.max(gateway, 0.02)) * 100}%` }} />
        {endpoint > 0 && <i className="span-endpoint" style={{ width: `${endpoint * 100}%` }} />}
      </span>
    </>
  );
}

export function RequestTable(props: Props) {
  const { records, selected, cursor, phone, wide, onCursor, onOpen } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: records.length, getScrollElement: () => scroller.current, estimateSize: () => (phone ? ROW_PHONE : ROW), overscan: 6,
    getItemKey: (index) => records[index]?.id ?? index,
  });
  useEffect(() => rows.measure(), [phone, rows]);
  useEffect(() => {
    if (cursor >= 0 && cursor < records.length) rows.scrollToIndex(cursor, { align: 'auto' });
    // Only a moved cursor scrolls; new rows must not.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [cursor]);
  const onKey = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      onCursor(Math.max(0, Math.min(records.length - 1, cursor + by)));
    } else if (event.key === 'Enter' && records[cursor]) {
      event.preventDefault();
      onOpen(records[cursor]);
    }
  };
  return (
    <div
      ref={scroller} className={`requests${wide ? ' requests-wide' : ''}`} role="grid" aria-label="Requests, newest first" aria-rowcount={records.length + 1} tabIndex={0}
      aria-activedescendant={cursor >= 0 && records[cursor] ? `request-${records[cursor].id}` : undefined}
      onKeyDown={onKey} onScroll={(event) => props.onTop(event.currentTarget.scrollTop < 8)}
      onMouseEnter={() => props.onHover(true)} onMouseLeave={() => props.onHover(false)}
    >
      <div className="requests-head" role="row">
        <span role="columnheader" className="t-time">Time</span>
        <span role="columnheader" className="t-status">Status</span>
        <span role="columnheader" className="t-request">Request</span>
        {wide && <span role="columnheader">Host</span>}
        {wide && <span role="columnheader">Route</span>}
        {wide && <span role="columnheader">Consumer</span>}
        {wide && <span role="columnheader">Endpoint</span>}
        {wide && <span role="columnheader" className="num">Bytes</span>}
        <span role="columnheader" className="t-cause">Cause</span>
        <span role="columnheader" className="t-total num">Total, ms</span>
        <span role="columnheader" className="t-bar"><span className="sr">Share of the gateway</span></span>
      </div>
      <div className="requests-body" role="presentation" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((item) => {
          const record = records[item.index]!;
          return (
            <div
              key={item.key} id={`request-${record.id}`} role="row" aria-rowindex={item.index + 2} aria-selected={record.id === selected}
              className="request" data-cursor={item.index === cursor} style={{ height: item.size, transform: `translateY(${item.start}px)` }}
              onClick={(event) => {
                onCursor(item.index);
                if (window.getSelection()?.toString() === '' || event.detail < 2) onOpen(record);
              }}
            >
              {phone ? <PhoneRow record={record} /> : <Cells record={record} wide={wide} />}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function PhoneRow({ record }: { record: RequestRecord }) {
  const level = statusLevel(record.status);
  return (
    <div className="request-phone" role="gridcell">
      <span className={`strong level-${level}`}>{level !== 'ok' && <Mark state={level} label="" size={11} />} {record.status}</span>
      <span className="mono ellipsis">{record.method} {record.path}</span>
      <span className="num">{millis(record.total_us)} ms</span>
      <span className="quiet">{clockMillis(record.t_ms).slice(0, 8)}</span>
      <span className="quiet ellipsis">{record.host}{record.route ? ` · ${record.route}` : ''}</span>
      <span className={record.status >= 500 ? 'num level-err' : 'num quiet'}>{record.cause ?? ''}</span>
    </div>
  );
}
