/**
 * The events of requests that the audit log records: one row for each kind, with the time when its entry is written and
 * the fields that it has. Sweeps and commands record their own changes.
 */
import {
  type AuditedReads,
  type Difference,
  type Entry,
  type EntryDecision,
  type EntryResource,
  outcomeOperation,
  type Person,
  resourceOf,
} from '../domain/audit.ts';
import { Failure, fail } from '../domain/error.ts';
import { type DecidingRule, decidingRule, ruleOf } from '../domain/explain.ts';
import type { Allowed, Resource } from '../domain/policy.ts';
import { actorOf, aggregatedBy, identityOf, type Principal, questionOf } from '../domain/principal.ts';
import { canonicalContainer, type Transform } from '../domain/rule.ts';
import { type Counted, collector } from './log/collector.ts';
import type { AuditLog, NewEntry } from './records.ts';

/** A request, as its entries name it. */
export interface Client {
  readonly method: string;
  readonly requestId: string;
  readonly traceId: string | undefined;
  readonly purpose: string | undefined;
  /** The client's address, or the /64 of an IPv6 address. */
  network(): string | undefined;
  from(): Entry['from'];
}

/** Token data in a reply. All tokens have the same transform. */
export interface Disclosure {
  readonly tokens: readonly Resource[];
  readonly transform: Transform;
  /** The rule that decided. Undefined if several rules did. */
  readonly rule?: DecidingRule | undefined;
}

/** A token, or another resource, with the decision that allowed it. */
interface Decided {
  readonly token: Resource;
  readonly verdict: Allowed;
}

/** Groups tokens by transform. Sets `rule` where the same rule decided for all tokens of the group. */
export function disclosuresOf({ kind }: Pick<Principal, 'kind'>, decided: readonly Decided[]): Disclosure[] {
  return Array.from(
    Map.groupBy(decided, ({ verdict }) => verdict.transform),
    ([transform, some]) => {
      const [{ verdict: first }] = some as [Decided, ...Decided[]];
      const isSame = some.every(
        ({ verdict }) => verdict.rule === first.rule && verdict.isOfCeiling === first.isOfCeiling,
      );
      const rule = isSame ? ruleOf(kind, first) : undefined;
      return { tokens: some.map(({ token }) => token), transform, rule };
    },
  );
}

interface Requested {
  readonly caller: Principal;
  readonly client: Client;
  readonly operation: string;
}

interface Changed extends Requested {
  readonly entity: NonNullable<Entry['entity']>;
  readonly difference?: Difference | undefined;
  readonly resource?: Resource | readonly Resource[] | undefined;
  readonly search?: Entry['search'];
  /** Token data in the reply. */
  readonly disclosure?: Disclosure | undefined;
}

interface Disclosed extends Requested {
  readonly disclosure: Disclosure;
}

interface Searched extends Requested {
  readonly search: NonNullable<Entry['search']>;
  /** Undefined without hits. */
  readonly disclosure: Disclosure | undefined;
}

/** A decision about `actor` that the caller wants to have in the log. */
interface Reported extends Disclosed {
  readonly actor: Principal;
  /** Of the actor's request. If undefined, that of the caller. */
  readonly purpose: string | undefined;
}

interface Used extends Omit<Requested, 'operation'> {
  readonly destination: { readonly id: string; readonly name: string };
  readonly request: { readonly method: string; readonly path: string };
  readonly tokens: readonly Resource[];
}

interface Answered {
  /** The entry of the use. */
  readonly use: NewEntry;
  /** Of the destination's reply, if there was one. */
  readonly status: number | undefined;
  readonly reason: string | undefined;
}

/** A key or session that was issued or ended by a request without a key, such as a sign-in. */
export interface KeylessEvent {
  readonly at: number;
  readonly actor: Entry['actor'];
  readonly operation: string;
  readonly client: Client;
  /** Undefined if the key is unknown. */
  readonly target: Target | undefined;
  readonly difference?: Difference | undefined;
}

interface Denied extends Requested {
  /** The principal that was denied the operation, if not the caller. */
  readonly actor?: Principal | undefined;
  /** The error code. */
  readonly reason: string;
  readonly decision: EntryDecision;
  readonly resource?: EntryResource | undefined;
  /** Whether the ids and container in `resource` are those of stored tokens. Otherwise the caller chose them. */
  readonly isStored?: boolean | undefined;
  /** The application that created the stored tokens, if it is known and the same for all. */
  readonly createdBy?: string | undefined;
  /** Of a reported denial, if it is not that of the caller. */
  readonly purpose?: string | undefined;
  /** The application that reported the denial. Undefined if this service denied the request. */
  readonly reportedBy?: string;
}

interface Target {
  readonly tenantId: string;
  readonly entity?: NonNullable<Entry['entity']>;
}

/** A request without a valid key. */
interface Unauthenticated {
  readonly operation: string;
  /** The error code. */
  readonly reason: string;
  readonly client: Client;
  /** The tenant and the application whose key was requested, if known. */
  readonly target?: Target | undefined;
  readonly decision?: EntryDecision | undefined;
  readonly person?: Person | undefined;
  /** Events with different values here are not counted together. */
  readonly apart?: readonly unknown[];
}

interface Quarantined extends Requested {
  readonly result: Entry['result'];
  readonly reason?: string;
  readonly ids: string[];
}

/** When the entry of an event is written. What happens if it cannot be written follows from that. */
interface Written<E> {
  /**
   * - `with the change`: pass `entryOf` to `record` of the transaction. Without the entry, the change is not made: 503.
   * - `before the reply`: durable before the response is sent. Otherwise the response is 503, without data.
   * - `afterwards`: of what cannot be undone. The caller gets the reply in any case, and the loss is logged.
   */
  readonly written: 'with the change' | 'before the reply' | 'afterwards';
  /** Whether the settings exclude the event from the log. */
  isLeftOut?(event: E, reads: AuditedReads): boolean;
  entry(event: E): NewEntry;
}

interface Collected<E> {
  /**
   * `collected`: counted in memory, and written within a second or at the end of the minute. It stays counted until it
   * is written, with an error in the log of the program.
   */
  readonly written: 'collected';
  isLeftOut?(event: E, reads: AuditedReads): boolean;
  counted(event: E): Counted;
}

const kinds = {
  /** A change, with the token data in its reply. */
  change: {
    written: 'with the change',
    entry: ({ entity, search, resource, disclosure, difference, ...by }: Changed) => ({
      ...requested(by),
      entity,
      ...(search && { search }),
      ...(resource && { resource: resourceOf([resource].flat()) }),
      ...(disclosure && disclosedFields(disclosure)),
      ...(difference && { difference }),
      result: 'success',
    }),
  },
  keyless: {
    written: 'with the change',
    entry: ({ at, actor, operation, client, target, difference }: KeylessEvent) => ({
      ...{ ...target, at, actor, ...clientFields(client), operation },
      ...(difference && { difference }),
      ...(target ? { result: 'success' } : { result: 'failed', reason: 'not_found' }),
    }),
  },
  /** Token data that is about to be sent to a destination. */
  use: {
    written: 'with the change',
    entry: ({ destination: { id: destination, name }, request: { method, path }, tokens, ...by }: Used) => {
      const [first] = tokens;
      const rule = first && decidingRule(questionOf(by.caller), 'token:use', { ...first, destination });
      return {
        ...requested({ ...by, operation: 'token.use' }),
        result: 'success',
        resource: resourceOf(tokens),
        ...(rule && { decision: { rule } }),
        use: { destination, name, method, path },
      };
    },
  },
  /** The end of a use: the status of the destination, or the error. */
  outcome: {
    written: 'afterwards',
    entry: ({ use, status, reason }: Answered) => ({
      ...use,
      operation: outcomeOperation,
      ...(use.use && status !== undefined && { use: { ...use.use, status } }),
      ...(reason !== undefined && { reason }),
    }),
  },
  /** Plaintext in a reply. */
  disclosure: {
    written: 'before the reply',
    isLeftOut: ({ caller }: Disclosed, reads) => reads === 'off' && !caller.policy.quarantined,
    entry: ({ disclosure, ...by }: Disclosed) => ({
      ...requested(by),
      ...disclosedFields(disclosure),
      result: 'success',
    }),
  },
  /** A search, also without hits: it answers guesses. */
  search: {
    written: 'before the reply',
    entry: ({ search, disclosure, ...by }: Searched) => ({
      ...requested(by),
      search,
      result: 'success',
      ...(disclosure && disclosedFields(disclosure)),
    }),
  },
  report: {
    written: 'before the reply',
    entry: ({ actor, purpose, disclosure, ...by }: Reported) => ({
      ...requested(by),
      actor: actorOf(actor),
      ...(purpose !== undefined && { purpose }),
      ...disclosedFields(disclosure),
      result: 'success',
      reported_by: by.caller.applicationId,
    }),
  },
  /** Masked or redacted data in a reply. */
  read: {
    written: 'collected',
    isLeftOut: ({ caller }: Disclosed, reads) => reads !== 'all' && !caller.policy.quarantined,
    counted: (read: Disclosed) => {
      const { caller, client, operation } = read;
      const { tokens, transform, rule } = read.disclosure;
      const resource = resourceOf(tokens);
      const { id } = identityOf(caller);
      return {
        tenantId: caller.tenantId,
        quota: aggregatedBy(caller),
        coarse: [operation, transform],
        fine: [`${id} ${resource.container} ${rule?.of} ${rule?.rule} ${client.purpose}`],
        resource,
        entry: () => ({
          ...requested(read),
          decision: { transform, ...(rule && { rule }) },
          result: 'success',
        }),
      };
    },
  },
  /**
   * Denials about tokens that other applications created have a separate quota, which a caller cannot use up with its own
   * tokens or with made-up ids and containers. Events with different purposes, reasons or missing grants can be in one
   * group, because the caller can choose parts of these. The entry has those of its first event.
   */
  denial: {
    written: 'collected',
    counted: ({
      actor,
      reason,
      decision,
      resource,
      isStored,
      createdBy,
      purpose,
      reportedBy,
      ...by
    }: Denied) => {
      const { caller, client, operation } = by;
      const denied = actor ?? caller;
      const about = !isStored ? 'named' : createdBy === denied.applicationId ? 'own' : 'stored';
      return {
        tenantId: caller.tenantId,
        quota: JSON.stringify([about, aggregatedBy(denied), reportedBy]),
        coarse: [reportedBy ?? operation, reason],
        fine: [
          operation,
          identityOf(denied).id,
          resource?.container,
          isMove(decision, resource),
          client.network(),
          // An invalid DPoP proof: a missing and a forged one get separate entries. There are only a few reasons.
          reason === 'unauthenticated' ? decision.reason : null,
        ],
        resource,
        entry: () => ({
          ...requested(by),
          actor: actorOf(denied),
          result: 'denied',
          reason,
          decision,
          ...(purpose !== undefined && { purpose }),
          ...(reportedBy !== undefined && { reported_by: reportedBy }),
        }),
      };
    },
  },
  unauthenticated: {
    written: 'collected',
    counted: ({ operation, reason, client, target, decision, person, apart = [] }: Unauthenticated) => ({
      tenantId: target?.tenantId,
      quota: target ? `${operation} ${target.entity?.id}` : 'anonymous',
      coarse: [operation, reason],
      fine: [...apart, client.network()],
      entry: (at) => ({
        ...target,
        at,
        actor: { kind: 'anonymous', ...(person && { person }) },
        ...clientFields(client),
        operation,
        result: target ? 'denied' : 'failed',
        reason,
        ...(decision && { decision }),
      }),
    }),
  },
  /** A request in quarantine that no other row records. Its quota is separate, so it cannot use up that of reads. */
  quarantined: {
    written: 'collected',
    counted: ({ result, reason, ids, ...by }: Quarantined) => ({
      tenantId: by.caller.tenantId,
      quota: `quarantine ${aggregatedBy(by.caller)}`,
      coarse: [by.operation, result],
      fine: [identityOf(by.caller).id],
      resource: { ids },
      entry: () => ({ ...requested(by), result, ...(reason !== undefined && { reason }) }),
    }),
  },
  /** A request with a key for emergencies. */
  breakGlass: {
    written: 'collected',
    counted: (by: Omit<Requested, 'operation'>) => ({
      tenantId: by.caller.tenantId,
      quota: `break-glass ${by.caller.applicationId}`,
      coarse: ['break-glass'],
      fine: [by.caller.authority?.keyId, by.client.network()],
      entry: () => ({
        ...requested({ ...by, operation: 'key.break_glass' }),
        entity: { kind: 'application', id: by.caller.applicationId },
        result: 'success',
      }),
    }),
  },
} satisfies Record<string, Written<never> | Collected<never>>;

type Kinds = typeof kinds;
type DetailsOf<Row> = Row extends { entry(event: infer E): NewEntry }
  ? E
  : Row extends { counted(event: infer E): Counted }
    ? E
    : never;
/** The events of the kinds that are written at this time. */
type EventOf<When> = {
  [K in keyof Kinds]: Kinds[K]['written'] extends When ? { readonly kind: K } & DetailsOf<Kinds[K]> : never;
}[keyof Kinds];
export type RecordedEvent = EventOf<'before the reply' | 'afterwards' | 'collected'>;

/** The entry of a change, for `record` of its transaction. */
export function entryOf(event: EventOf<'with the change'>): NewEntry {
  return (kinds[event.kind] as Written<object>).entry(event);
}

export interface Trail {
  /** Which reads are recorded outside of quarantine. */
  readonly reads: AuditedReads;
  /**
   * Counts events, and writes entries of the others. Returns undefined if no entry has to be written now, because an
   * `await` adds to the CPU time of masked reads. The promise resolves when the entries are durable, and rejects with
   * `unavailable` if one that must be is not.
   */
  record(events: readonly RecordedEvent[]): Promise<void> | undefined;
  /** Call this every second. Writes the counted events whose entries are due. Never rejects. */
  writeDue(): Promise<void>;
  /** Writes all counted events. Never rejects: if that fails, the next call writes them. */
  flush(): Promise<void>;
}

interface TrailOptions {
  readonly reads: AuditedReads;
  readonly now: () => number;
  readonly log: { error(message: string, fields: Readonly<Record<string, unknown>>): void };
}

export function openTrail({ write }: Pick<AuditLog, 'write'>, { reads, now, log }: TrailOptions): Trail {
  const collected = collector(write, now);

  async function writeNow(entries: readonly NewEntry[], isRequired: boolean): Promise<void> {
    try {
      await write(entries);
    } catch (error) {
      if (isRequired) throw error instanceof Failure ? error : fail('unavailable', { cause: error });
      const [{ use } = {}] = entries;
      log.error('the outcome of a use was not recorded', { destination: use?.destination, error });
    }
  }

  async function keepCounted(writing: Promise<void>): Promise<void> {
    await writing.catch((error: unknown) => {
      log.error('denials and reads could not be written to the audit log yet', {
        entries: collected.waiting(),
        error,
      });
    });
  }

  return {
    reads,
    record: (events) => {
      const entries: NewEntry[] = [];
      let isRequired = false;
      for (const event of events) {
        const row = kinds[event.kind] as Written<object> | Collected<object>;
        if (row.isLeftOut?.(event, reads)) continue;
        if (row.written === 'collected') collected.add(row.counted(event));
        else {
          entries.push(row.entry(event));
          isRequired ||= row.written === 'before the reply';
        }
      }
      return entries.length === 0 ? undefined : writeNow(entries, isRequired);
    },
    writeDue: () => keepCounted(collected.writeDue()),
    flush: () => keepCounted(collected.flush()),
  };
}

/** The fields about the caller, the time and the client. */
function requested({ caller, client, operation }: Requested) {
  const { purpose } = client;
  return {
    tenantId: caller.tenantId,
    at: caller.now,
    actor: actorOf(caller),
    ...clientFields(client),
    ...(purpose !== undefined && { purpose }),
    operation,
  };
}

function clientFields(client: Client) {
  const { requestId, traceId } = client;
  return {
    from: client.from(),
    request_id: requestId,
    ...(traceId !== undefined && { trace_id: traceId }),
  };
}

function disclosedFields({ tokens, transform, rule }: Disclosure) {
  const resource = resourceOf(tokens);
  const isNamed = resource.ids !== undefined || resource.container !== undefined;
  return { ...(isNamed && { resource }), decision: { transform, ...(rule && { rule }) } };
}

/** Whether the missing grant is for another container than the token's. This happens if a request moves the token. */
function isMove({ missing }: EntryDecision, resource: EntryResource | undefined): boolean {
  return (
    missing?.container !== undefined &&
    resource?.container !== undefined &&
    canonicalContainer(missing.container) !== resource.container
  );
}
