/** The audit log as its readers and writers see it. */
import type { Entry, LogEntry, LogFilter, LogGap } from '../domain/audit.ts';
import type { Reserve, RunSteps } from '../domain/steps.ts';

/** The tenant id of entries without a tenant, in columns, MACs and signatures. */
export const systemTenant = '00000000-0000-0000-0000-000000000000';

/** The name of a chain in anchors, file names and messages. */
export function chainName(tenantId: string): string {
  return tenantId === systemTenant ? 'system' : tenantId;
}

/** The tenant id of a chain, from its name. */
export function chainTenant(name: string): string {
  return name === 'system' ? systemTenant : name;
}

/** A segment of a chain: its number, and its hash, which covers all segments before it. */
export interface Position {
  readonly number: number;
  /** Hexadecimal. */
  readonly hash: string;
}

/** The end of a chain. */
export interface Head extends Position {
  readonly tenantId: string;
}

/** The position before the first segment of a chain. */
export const genesis: Position = { number: 0, hash: '0'.repeat(64) };

export function formatPosition({ number, hash }: Position): string {
  return `${number}:${hash}`;
}

export const positionPattern = /^(\d{1,15}):([0-9a-f]{64})$/;

/** Returns undefined for any other text than NUMBER:HASH. */
export function parsePosition(text: string): Position | undefined {
  const [, number, hash] = positionPattern.exec(text) ?? [];
  return hash === undefined ? undefined : { number: Number(number), hash };
}

/** An end of a chain as operators store it elsewhere: TENANT:NUMBER:HASH, with `system` for the system chain. */
export function anchorOf({ tenantId, ...position }: Head): string {
  return `${chainName(tenantId)}:${formatPosition(position)}`;
}

/** Returns undefined for any other text than an anchor. */
export function parseAnchor(text: string): Head | undefined {
  const [, chain = '', rest = ''] = /^(system|[0-9a-f-]{36}):(.*)$/.exec(text) ?? [];
  const position = parsePosition(rest);
  return position && { tenantId: chainTenant(chain), ...position };
}

export interface NewEntry extends Entry {
  /** Absent if the entry has no tenant. It is then written to the system chain. */
  readonly tenantId?: string | undefined;
  readonly at: number;
}

export interface AuditFilter extends LogFilter {
  /** The entry with this id. */
  readonly id?: string | undefined;
  /** Entries of sessions that this application authorized. */
  readonly authorizer?: string | undefined;
}

/** How a request reads the log. Statements and computations are slices of `run`, or take turns with others. */
export interface Pace {
  readonly run?: RunSteps | undefined;
  readonly reserve?: Reserve | undefined;
}

/**
 * With `after`: entries that were sealed after this id, oldest first. Otherwise newest first; with `before`, only
 * entries before this id.
 */
export interface LogWindow extends Pace {
  readonly limit: number;
  readonly before?: string | undefined;
  readonly after?: string | undefined;
}

export interface LogPage {
  readonly entries: LogEntry[];
  /** The `before` or `after` of the next page. Absent if every entry was examined. */
  readonly next?: string | undefined;
  /** First page only: periods in which entries that match the filter are missing. */
  readonly gaps?: readonly LogGap[];
}

/** Numbers of entries, for consecutive intervals. */
export interface LogCounts {
  /** Start of the first interval. */
  readonly start: number;
  /** Milliseconds per interval. */
  readonly length: number;
  readonly end: number;
  readonly counts: readonly Readonly<Record<Entry['result'], number>>[];
  /** Entries before this time were not counted, because there are too many. Undefined if all entries were counted. */
  readonly countedFrom: number | undefined;
  /** Only if the query includes them. */
  readonly denials?: DenialCounts | undefined;
  /** Periods in which entries that match the filter are missing. */
  readonly gaps: readonly LogGap[];
}

/** Denied requests. An aggregated entry counts with its number of events. */
export interface DenialCounts {
  /** For the same intervals as the entries. */
  readonly counts: readonly number[];
  /** By application, most first. Requests of a session count for its application. */
  readonly applications: readonly { readonly id: string; readonly denials: number }[];
  /** Entries before this time were not read, because there are too many. Undefined if all were read. */
  readonly countedFrom: number | undefined;
}

export type CountFilter = Omit<AuditFilter, 'id' | 'entity' | 'transform' | 'request_id' | 'changes'>;

export interface AuditLog {
  /**
   * Writes entries of one tenant about requests that changed nothing, such as denials. Durable when it resolves.
   * Concurrent calls share a commit.
   */
  write(entries: readonly NewEntry[]): Promise<void>;
  /**
   * Entries of a tenant. Newest first, including all that were committed before the call; with `after`, only sealed
   * entries, oldest first. Examines a bounded number of entries, so a page may be short or empty and still have a
   * `next`. Throws `validation_failed` if `after` is not the id of an entry of this tenant, or if entries after it were
   * archived. The first page has the gaps: periods in which entries that match the filter may be missing.
   */
  list(tenant: string, filter: AuditFilter, window: LogWindow): Promise<LogPage>;
  /**
   * Counts the entries that `list` would return, by result and time. Without times in the filter, counts from the first
   * entry until `now`. Cannot filter by `id`, `entity`, `transform`, `request_id` or the root container. Counts at most the
   * last two million entries, or those of the last 100,000 segments. With `denials`, also reads the denied entries, up
   * to 250,000 of them, for the number of events in each.
   */
  count(tenant: string, filter: CountFilter, now: number, denials?: boolean, pace?: Pace): Promise<LogCounts>;
}
