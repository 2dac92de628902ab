/** The table of applications. Renders only the visible rows, and loads only their keys. */
import { memo, useRef, useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { OutcomeBadge } from '../access/outcome.tsx';
import { countdown, formatDate, shortId, timeAgo } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useShortcuts } from '../frame/keyboard.ts';
import { useNow } from '../frame/load.ts';
import { href } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { useVisibleRows } from '../frame/visible-rows.ts';
import { useApplicationSummary } from './application-summary.ts';
import { readsOf, summarizeGrants, summarizePermissions } from './grants-summary.ts';
import { useKeyEndings } from './key-endings.ts';
import { labelsOf } from './labels.ts';
import { QuarantineTag } from './quarantine.tsx';
import { TypeBadge } from './type-badge.tsx';

export type Column = 'name' | 'used' | 'expires' | 'created';
export interface Order {
  readonly column: Column;
  readonly descending: boolean;
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
  const { first, last, show } = useVisibleRows(body, rows.length, rowHeight);
  const [at, setAt] = useState(-1);
  const now = useNow(rows.length > 0 ? 1000 : 60_000);
  const visible = rows.slice(first, last);
  const endings = useKeyEndings(visible);
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
  const active = order.column === sorted;
  const descending = active ? !order.descending : sorted !== 'name' && sorted !== 'expires';
  return (
    <span role="columnheader" aria-sort={active ? (order.descending ? 'descending' : 'ascending') : 'none'}>
      <button type="button" onClick={() => setOrder({ column: sorted, descending })}>
        {label}
        {active && <Icon name={order.descending ? 'down' : 'up'} size={11} />}
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
  const { permissions, ownApplication } = useSignedIn();
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
          <QuarantineTag since={row.quarantined_at} />
          {ownApplication?.id === row.id && <span className="tag">signed in</span>}
          {labelsOf(row).map((label) => (
            <a
              key={label}
              className="tag"
              href={`${href('applications')}?${new URLSearchParams({ q: label })}`}
            >
              <bdi>{label}</bdi>
            </a>
          ))}
        </span>
      </span>
      <span role="cell" className="cell-access" title={summarizeGrants(row, permissions.length)}>
        <Access row={row} all={permissions.length} />
      </span>
      <span role="cell" className="cell-keys">
        {endings?.map((ending) => <code key={ending}>…{ending}</code>) ?? (
          <span className="faint" title="Not loaded">
            –
          </span>
        )}
      </span>
      <span role="cell" className="cell-used">
        <LastUsed at={row.last_used_at} now={now} />
      </span>
      <span role="cell" className="cell-expires">
        <Expires at={row.expires_at} now={now} />
      </span>
      <span role="cell" className="cell-created">
        <span title={formatDate(row.created_at)}>{timeAgo(row.created_at, now)}</span>
        <CreatedBy id={row.created_by} />
      </span>
    </div>
  );
});

/** The riskiest read, if the application reads anything, and its permissions. */
function Access({ row, all }: { row: Application; all: number }) {
  const [first, ...others] = row.quarantined_at === undefined ? readsOf(row) : [];
  return (
    <>
      {first && (
        <span className="cell-rule">
          <OutcomeBadge answer={first.transform} /> <code>{first.container ?? 'all containers'}</code>
          {others.length > 0 && <span className="faint"> +{others.length}</span>}
        </span>
      )}
      {summarizePermissions(row.permissions, all)}
    </>
  );
}

/** The service records use in memory and writes it once a minute. */
export const usageDelay = 'Use is recorded within a minute.';

export function LastUsed({ at, now }: { at: string | undefined; now: number }) {
  if (at === undefined)
    return (
      <span className="faint" title={usageDelay}>
        no recorded use
      </span>
    );
  return <span title={formatDate(at)}>{timeAgo(at, now)}</span>;
}

const soon = 7 * 86_400_000;

export function Expires({ at, now }: { at: string | undefined; now: number }) {
  if (at === undefined) return <span className="faint">never</span>;
  const remaining = Date.parse(at) - now;
  const tone = remaining <= 0 ? 'tag tag-bad' : remaining < soon ? 'tag tag-warn' : 'countdown';
  return (
    <span className={tone} title={formatDate(at)}>
      {countdown(at, now)}
    </span>
  );
}

/** The creator: an application or the operator. */
export function CreatedBy({ id }: { id: string | undefined }) {
  const found = useApplicationSummary(id);
  const name =
    id === undefined
      ? 'the operator'
      : found === null
        ? 'a deleted application'
        : (found?.name ?? shortId(id));
  return (
    <small className="created-by">
      by <bdi>{name}</bdi>
    </small>
  );
}
