/** The rows of the list: only those in sight are drawn, and only of those are the keys asked for. */
import { memo, useRef, useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { Outcome } from '../access/outcome.tsx';
import { Icon } from '../frame/icons.tsx';
import { useShortcuts } from '../frame/keyboard.ts';
import { useNow } from '../frame/load.ts';
import { href } from '../frame/place.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { useSight } from '../frame/virtual.ts';
import { ago, countdown, exactly } from '../frame/words.ts';
import { grantsInShort, plainInShort } from './brief.ts';
import { useEndings } from './endings.ts';
import { useRoll } from './roll.ts';
import { TypeBadge } from './type.tsx';

export type Column = 'name' | 'used' | 'expires' | 'created';
export interface Order {
  readonly column: Column;
  readonly falling: boolean;
}

const rowHeight = 56;
const columns: readonly [label: string, sorted: Column | undefined][] = [
  ['Name', 'name'],
  ['Access', undefined],
  ['Keys', undefined],
  ['Last used', 'used'],
  ['Expires', 'expires'],
  ['Created', 'created'],
];

interface Props {
  readonly rows: readonly Application[];
  readonly order: Order;
  readonly setOrder: (order: Order) => void;
}

export function Table({ rows, order, setOrder }: Props) {
  const body = useRef<HTMLDivElement>(null);
  const { first, last, show } = useSight(body, rows.length, rowHeight);
  const [at, setAt] = useState(-1);
  const now = useNow(rows.length > 0 ? 1000 : 60_000);
  const visible = rows.slice(first, last);
  const endings = useEndings(visible);
  const move = (step: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, at + step));
    setAt(next);
    show(next);
    requestAnimationFrame(() =>
      body.current?.querySelector<HTMLElement>(`[data-row="${next}"] a`)?.focus({ preventScroll: true }),
    );
  };
  useShortcuts({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
  });
  return (
    <div className="table" role="table" aria-label="Applications" aria-rowcount={rows.length + 1}>
      <div className="table-head" role="row" aria-rowindex={1}>
        {columns.map(([label, sorted]) => (
          <ColumnHead key={label} label={label} sorted={sorted} order={order} setOrder={setOrder} />
        ))}
      </div>
      <div ref={body} role="rowgroup" className="table-body" style={{ height: rows.length * rowHeight }}>
        {visible.map((row, index) => (
          <Row
            key={row.id}
            row={row}
            index={first + index}
            endings={endings.get(row.id)}
            now={now}
            enter={setAt}
          />
        ))}
      </div>
    </div>
  );
}

function ColumnHead({
  label,
  sorted,
  order,
  setOrder,
}: Pick<Props, 'order' | 'setOrder'> & { label: string; sorted: Column | undefined }) {
  if (!sorted) return <span role="columnheader">{label}</span>;
  const mine = order.column === sorted;
  const falls = mine ? !order.falling : sorted !== 'name' && sorted !== 'expires';
  return (
    <span role="columnheader" aria-sort={mine ? (order.falling ? 'descending' : 'ascending') : 'none'}>
      <button type="button" onClick={() => setOrder({ column: sorted, falling: falls })}>
        {label}
        {mine && <Icon name={order.falling ? 'down' : 'up'} size={11} />}
      </button>
    </span>
  );
}

interface RowProps {
  readonly row: Application;
  readonly index: number;
  readonly endings: readonly string[] | undefined;
  readonly now: number;
  readonly enter: (index: number) => void;
}

const Row = memo(function Row({ row, index, endings, now, enter }: RowProps) {
  const { permissions, own } = useSignedIn();
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      data-row={index}
      className="table-row"
      style={{ transform: `translateY(${index * rowHeight}px)` }}
      onFocus={() => enter(index)}
    >
      <span role="cell" className="cell-name">
        <a href={href('applications', row.id)}>
          <bdi>{row.name}</bdi>
        </a>
        <span className="cell-sub">
          <TypeBadge type={row.type} />
          {own?.id === row.id && <span className="tag">this key</span>}
        </span>
      </span>
      <span role="cell" className="cell-access" title={grantsInShort(row, permissions.length)}>
        <Access row={row} all={permissions.length} />
      </span>
      <span role="cell" className="cell-keys">
        {endings?.map((ending) => (
          <code key={ending}>…{ending}</code>
        ))}
      </span>
      <span role="cell" className="cell-used">
        <LastUsed at={row.last_used_at} now={now} />
      </span>
      <span role="cell" className="cell-expires">
        <Expires at={row.expires_at} now={now} />
      </span>
      <span role="cell" className="cell-created">
        <span title={exactly(row.created_at)}>{ago(row.created_at, now)}</span>
        <Maker id={row.created_by} />
      </span>
    </div>
  );
});

function Access({ row: { rules, permissions }, all }: { row: Application; all: number }) {
  const [first, ...others] = rules;
  return (
    <>
      {first && (
        <span className="cell-rule">
          <Outcome answer={first.transform} /> <code>{first.container ?? 'everywhere'}</code>
          {others.length > 0 && <span className="faint"> +{others.length}</span>}
        </span>
      )}
      {plainInShort(permissions, all)}
    </>
  );
}

export function LastUsed({ at, now }: { at: string | undefined; now: number }) {
  if (at === undefined) return <span className="tag tag-warn">never used</span>;
  return <span title={exactly(at)}>{ago(at, now)}</span>;
}

const soon = 7 * 86_400_000;

export function Expires({ at, now }: { at: string | undefined; now: number }) {
  if (at === undefined) return <span className="faint">never</span>;
  const left = Date.parse(at) - now;
  const tone = left <= 0 ? 'tag tag-bad' : left < soon ? 'tag tag-warn' : 'countdown';
  return (
    <span className={tone} title={exactly(at)}>
      {countdown(at, now)}
    </span>
  );
}

/** Who made it: an Application by its name if it is still there, or the operator. */
export function Maker({ id }: { id: string | undefined }) {
  const { byId } = useRoll(useSignedIn().roll);
  const name = id === undefined ? 'the operator' : (byId.get(id)?.name ?? 'one that is gone');
  return (
    <small className="maker">
      by <bdi>{name}</bdi>
    </small>
  );
}
