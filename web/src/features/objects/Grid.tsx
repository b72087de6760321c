/** The grid of a list: only the rows in view are in the page, and all of it works by the keyboard. */
import { useEffect, useRef, type KeyboardEvent, type MouseEvent } from 'react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { IconArrowDown, IconArrowUp } from '@tabler/icons-react';
import { objectPath } from '../../app/url';
import type { ObjectRow } from '../../api/types';
import { Go } from '../../ui/Go';
import { Mark, wordOf } from '../../ui/Mark';
import { rate } from '../../ui/format';
import { nameOf } from './kinds/cells';
import type { Column, Kind } from './kinds/types';

interface Props {
  kind: Kind;
  count: number;
  row: (index: number) => ObjectRow | undefined;
  ensure: (first: number, last: number) => void;
  columns: Column[];
  sort: string;
  onSort: (column: Column) => void;
  active: number;
  onActive: (index: number) => void;
  selected: ReadonlySet<string>;
  onSelect: (index: number, range: boolean) => void;
  onSelectAll: (() => void) | null;
  onOpen: (row: ObjectRow) => void;
  onPeek: (row: ObjectRow) => void;
  onRange: (first: number, last: number) => void;
  phone: boolean;
  dimmed: boolean;
  writable: boolean;
}

export function Grid(props: Props) {
  const { kind, count, row, ensure, columns, active, phone, writable } = props;
  const host = useRef<HTMLDivElement>(null);
  const height = phone ? 60 : 36;
  const rows = useVirtualizer({ count, getScrollElement: () => host.current, estimateSize: () => height, overscan: phone ? 6 : 8 });
  const items = rows.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  const calls = useRef(props);
  calls.current = props;

  useEffect(() => rows.measure(), [height, rows]);
  useEffect(() => ensure(first, last), [ensure, first, last]);
  const top = Math.floor((rows.scrollOffset ?? 0) / height);
  const seen = Math.max(0, Math.min(count, top + Math.ceil((rows.scrollRect?.height ?? 0) / height)));
  useEffect(() => calls.current.onRange(count === 0 ? 0 : top + 1, seen), [top, seen, count]);
  useEffect(() => {
    if (active >= 0 && active < count) rows.scrollToIndex(active, { align: 'auto' });
    // Only a move of the active row scrolls.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [active]);

  const tracks = `${writable ? '16px ' : ''}${columns.map((column) => column.width).join(' ')}`;
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== host.current) return;
    const page = Math.max(1, Math.floor((host.current?.clientHeight ?? 0) / height) - 1);
    const moves: Record<string, number> = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: count - 1 };
    const to = moves[event.key];
    const current = row(active);
    if (to !== undefined) props.onActive(Math.max(0, Math.min(count - 1, to)));
    else if (event.key === 'Enter' && current) props.onOpen(current);
    else if (event.key === ' ' && current) props.onPeek(current);
    else return;
    event.preventDefault();
  };
  return (
    <div className={phone ? 'grid grid-phone' : 'grid'} data-dimmed={props.dimmed || undefined}>
      <div className="grid-scroll" ref={host} tabIndex={0} role="grid" aria-label={kind.label} aria-rowcount={count + (phone ? 0 : 1)} aria-colcount={columns.length + (writable ? 1 : 0)} aria-multiselectable={writable || undefined} aria-activedescendant={active >= 0 ? `row-${active}` : undefined} onKeyDown={onKeyDown}>
        {phone ? null : (
          <div className="grid-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: tracks }}>
            {writable ? <div role="columnheader" className="grid-check"><input type="checkbox" aria-label="Select all rows" tabIndex={-1} checked={props.selected.size > 0 && props.selected.size >= count} ref={(box) => { if (box) box.indeterminate = props.selected.size > 0 && props.selected.size < count; }} onChange={() => props.onSelectAll?.()} /></div> : null}
            {columns.map((column) => <Head key={column.id} column={column} sort={props.sort} onSort={props.onSort} />)}
          </div>
        )}
        <div className="grid-body" role="presentation" style={{ height: rows.getTotalSize() }}>
          {items.map((item) => (
            <Row key={item.index} index={item.index} start={item.start} height={height} data={row(item.index)} tracks={tracks} {...props} />
          ))}
        </div>
      </div>
    </div>
  );
}

function Head({ column, sort, onSort }: { column: Column; sort: string; onSort: (column: Column) => void }) {
  const sorted = column.sort !== undefined && sort.replace(/^-/, '') === column.sort ? (sort.startsWith('-') ? 'descending' : 'ascending') : undefined;
  const label = column.id === 'state' ? <span className="sr">State</span> : column.label;
  return (
    <div role="columnheader" aria-sort={sorted} className={column.numeric ? 'grid-num' : undefined}>
      {column.sort && column.id !== 'state' ? (
        <button type="button" tabIndex={-1} onClick={() => onSort(column)}>
          {label}
          {sorted === 'ascending' ? <IconArrowUp size={12} stroke={2} aria-hidden /> : sorted === 'descending' ? <IconArrowDown size={12} stroke={2} aria-hidden /> : null}
        </button>
      ) : label}
    </div>
  );
}

type RowProps = Props & { index: number; start: number; height: number; data: ObjectRow | undefined; tracks: string };

function Row({ kind, index, start, height, data, tracks, columns, active, onActive, selected, onSelect, onOpen, phone, writable }: RowProps) {
  const place = { transform: `translateY(${start}px)`, height };
  if (!data) return <div role="row" className="grid-row grid-wait" aria-rowindex={index + 2} style={place}><span role="gridcell" className="sr">Loading</span></div>;
  const isSelected = selected.has(data.id);
  const click = (event: MouseEvent) => {
    if ((event.target as HTMLElement).closest('a, input, button')) return;
    onActive(index);
    if (event.shiftKey) onSelect(index, true);
    else if (phone) onOpen(data);
  };
  const path = objectPath(kind.kind, data.id);
  const common = { id: `row-${index}`, role: 'row', 'aria-rowindex': index + (phone ? 1 : 2), 'aria-selected': writable ? isSelected : undefined, 'data-active': index === active || undefined, 'data-selected': isSelected || undefined, onClick: click };
  if (phone) {
    return (
      <div {...common} className="grid-row grid-row-phone" style={place}>
        <span role="gridcell"><Mark state={data.state} /></span>
        <span role="gridcell" className="grid-phone-main">
          <span className="grid-phone-line"><Go to={path} className="cell-open" tabIndex={-1}>{nameOf(data)}</Go>{data.state !== 'in_force' ? <span className="quiet">{data.state === 'out' ? 'out of force' : wordOf(data.state)}</span> : null}</span>
          <span className="grid-phone-sub">{second(data)}</span>
        </span>
        <span role="gridcell" className="dim tnum">{data.rps == null ? '' : `${rate(data.rps)} /s`}</span>
      </div>
    );
  }
  return (
    <div {...common} className="grid-row" style={{ ...place, gridTemplateColumns: tracks }} onDoubleClick={() => onOpen(data)}>
      {writable ? <div role="gridcell" className="grid-check"><input type="checkbox" tabIndex={-1} aria-label={`Select ${nameOf(data)}`} checked={isSelected} onChange={() => onSelect(index, false)} /></div> : null}
      {columns.map((column) => (
        <div key={column.id} role="gridcell" className={column.numeric ? 'grid-num' : 'grid-cell'}>
          {column.id === 'name' ? <Go to={path} className="cell-open" tabIndex={-1}>{column.cell(data)}</Go> : column.cell(data)}
        </div>
      ))}
    </div>
  );
}

/** The second line of a row on a phone. */
function second(row: ObjectRow): string {
  if (row.paths.length > 0) return `${row.methods.join(' ') || 'any'} ${row.hosts[0] ?? ''}${row.paths[0] ?? ''}`;
  if (row.names && row.names.length > 0) return row.names.join('  ');
  if (row.nodes !== undefined) return `${row.type ?? ''}  ${row.nodes} endpoints${row.down ? `, ${row.down} down` : ''}`;
  return row.plugins.join(', ') || row.desc || row.hosts.join(' ') || row.id;
}
