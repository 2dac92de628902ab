/**
 * Delivers the audit log to sinks: every entry at least once, in the order of each chain. The positions are stored in
 * the database, so delivery continues after a restart. In a fleet, only one node at a time delivers to a sink. Sinks do
 * not wait for each other, and requests do not wait for sinks.
 */
import { setImmediate } from 'node:timers/promises';
import { escapeText } from '../domain/escape.ts';
import { newId, redactSecrets } from '../domain/key.ts';
import type { Deliveries, UndeliveredChain } from '../store/audit/deliveries.ts';
import type { SinkState } from '../store/audit/sink-state.ts';
import type { AuditChain, ChainedEntry } from '../store/maintenance.ts';
import type { Log } from '../telemetry/log.ts';
import type { Observer } from '../telemetry/observe.ts';
import { type Batch, makeBatch } from './batch.ts';
import type { Sink } from './config.ts';
import { DeliveryError, type Receipt } from './sender.ts';

/** The audit log to read, and the repository that records deliveries. */
export interface AuditSource {
  readonly audit: Pick<AuditChain, 'range' | 'checkpoints'>;
  readonly deliveries: Deliveries;
}

export interface DeliveryOptions {
  readonly log: Log;
  readonly observer: Pick<Observer, 'delivered' | 'deliveryFailed'>;
  readonly now: () => number;
  /** Returns a number from 0 to 1, the jitter of retries. */
  readonly random: () => number;
  /** If false, entries are delivered only by `flush`. */
  readonly timers: boolean;
}

export interface Delivery {
  /** Delivers all chained entries. Skips a sink when an attempt fails, or while it waits for its next attempt. */
  flush(): Promise<void>;
  /** Aborts running attempts and releases the leases, so that other nodes can take over immediately. */
  stop(): Promise<void>;
  states(): Promise<SinkState[]>;
  /** The last entry of a chain that all sinks of all nodes have received. Undefined if this node has no sinks. */
  deliveredUpTo(tenantId: string | undefined): Promise<number | undefined>;
}

/** Chains per query, rows per read, and bytes of JSON per batch. The last read may exceed `maxBatchBytes`. */
const chainsPerRound = 100;
const rowsPerRead = 50;
const maxBatchBytes = 4 * 1024 * 1024;
const maxCheckpoints = 1000;
/** Milliseconds between two checks of the positions. */
const checkInterval = 60_000;
/** Maximum milliseconds that `stop` waits for running attempts. */
const maxStopTime = 3000;

/** Milliseconds until the next attempt: `first` after one failure, doubled with each further failure up to `max`. */
const backoff = { first: 1000, max: 300_000 };

export function startDelivery(
  sinks: readonly Sink[],
  source: AuditSource,
  options: DeliveryOptions,
): Delivery {
  const { deliveries } = source;
  const holder = newId(options.now());
  const stopping = new AbortController();
  const running = sinks.map((sink) => new SinkDelivery(sink, source, holder, stopping.signal, options));
  return {
    flush: async () => {
      await Promise.all(running.map((one) => one.run()));
    },
    stop: async () => {
      stopping.abort(new Error('the service stops'));
      const timedOut = Promise.withResolvers<void>();
      const timer = setTimeout(timedOut.resolve, maxStopTime);
      await Promise.race([Promise.all(running.map((one) => one.stop())), timedOut.promise]);
      clearTimeout(timer);
    },
    states: () => Promise.all(sinks.map(({ name }) => deliveries.state(name))),
    deliveredUpTo: async (tenantId) => {
      if (sinks.length === 0) return undefined;
      const names = await deliveries.withActive(sinks.map(({ name }) => name));
      const positions = await Promise.all(names.map((name) => deliveries.deliveredUpTo(name, tenantId)));
      return Math.min(...positions);
    },
  };
}

class SinkDelivery {
  readonly #sink: Sink;
  readonly #audit: AuditSource['audit'];
  readonly #deliveries: Deliveries;
  readonly #holder: string;
  readonly #stopped: AbortSignal;
  readonly #options: DeliveryOptions;
  readonly #timer: Timer | undefined;
  #running: Promise<void> | undefined;
  #isFirstClaim = true;
  #nextCheck = 0;

  constructor(
    sink: Sink,
    { audit, deliveries }: AuditSource,
    holder: string,
    stopped: AbortSignal,
    options: DeliveryOptions,
  ) {
    this.#sink = sink;
    this.#audit = audit;
    this.#deliveries = deliveries;
    this.#holder = holder;
    this.#stopped = stopped;
    this.#options = options;
    if (!options.timers) return;
    this.#timer = setInterval(() => {
      if (!this.#running) void this.run();
    }, sink.interval);
    this.#timer.unref();
  }

  /** Waits for a run in progress, then starts another run. */
  async run(): Promise<void> {
    const { log } = this.#options;
    await this.#running;
    this.#running ??= this.#deliverAll()
      .catch((error) =>
        log.warn('could not read or record deliveries of the audit log', { sink: this.#sink.name, error }),
      )
      .finally(() => {
        this.#running = undefined;
      });
    await this.#running;
  }

  async stop(): Promise<void> {
    const { log } = this.#options;
    clearInterval(this.#timer);
    await this.#running;
    await this.#deliveries
      .release(this.#sink.name, this.#holder)
      .catch((error) => log.warn('could not release a sink', { sink: this.#sink.name, error }));
  }

  /** Delivers until no entries remain or an attempt fails. */
  async #deliverAll(): Promise<void> {
    while (await this.#isHeld()) {
      await this.#checkPositions();
      const chains = await this.#deliveries.undelivered(this.#sink.name, chainsPerRound);
      if (chains.length === 0) return;
      for (const chain of chains) if (!(await this.#isHeld()) || !(await this.#deliverNext(chain))) return;
    }
  }

  /** Resets positions that another program has changed, so that the sink misses no entries. */
  async #checkPositions(): Promise<void> {
    const { log, now } = this.#options;
    if (now() < this.#nextCheck) return;
    this.#nextCheck = now() + checkInterval;
    const { name } = this.#sink;
    const chains = await this.#deliveries.resetChanged(name);
    if (chains > 0)
      log.error('the position of a sink was changed by another program', { sink: name, chains });
  }

  /** Claims or renews the lease. It lasts longer than an attempt, so that two nodes do not send at the same time. */
  async #isHeld(): Promise<boolean> {
    const { name, timeout } = this.#sink;
    if (this.#stopped.aborted) return false;
    const lease = { duration: timeout + 30_000, minimum: timeout + 10_000, isFirst: this.#isFirstClaim };
    const claim = await this.#deliveries.claim(name, this.#holder, lease);
    this.#isFirstClaim &&= claim === 'waiting';
    return claim === 'held';
  }

  /** Returns false if the attempt failed or another node has taken over. */
  async #deliverNext(chain: UndeliveredChain): Promise<boolean> {
    const { name, batch: limit } = this.#sink;
    const entries = await readEntries(this.#audit, chain, limit);
    const end = entries.at(-1)?.seq ?? chain.batchEnd ?? chain.head;
    this.#reportMissing(chain, entries, end);
    if (!(await this.#deliveries.begin(name, this.#holder, chain, end))) return false;
    if (entries.length === 0) {
      await this.#deliveries.complete(name, this.#holder, chain, end);
      return true;
    }
    const checkpoints = await this.#audit.checkpoints(chain.tenantId, chain.after, maxCheckpoints);
    const signed = checkpoints.filter(({ seq }) => seq <= end);
    return this.#attempt(chain, makeBatch(chain.tenantId, entries, signed));
  }

  async #attempt(chain: UndeliveredChain, batch: Batch): Promise<boolean> {
    const { name, sender } = this.#sink;
    const { log, observer, random } = this.#options;
    let receipt: Receipt;
    try {
      receipt = await sender.send(batch, this.#stopped);
    } catch (error) {
      if (this.#stopped.aborted) return false;
      observer.deliveryFailed(name);
      const message = describeError(error);
      log.warn('could not deliver the audit log to a sink', { sink: name, error: message });
      await this.#deliveries.fail(name, this.#holder, message, (failures) =>
        delayAfter(failures, error, random),
      );
      return false;
    }
    const rejection = describeRejection(receipt, batch);
    if (rejection !== undefined)
      log.error(rejection, { sink: name, tenant: chain.tenantId, batch: batch.id });
    await this.#deliveries.complete(name, this.#holder, chain, batch.last, rejection);
    observer.delivered(name, batch.entries.length);
    return true;
  }

  /** Logs entries that another program has deleted. The delivery continues without them. */
  #reportMissing(chain: UndeliveredChain, entries: readonly ChainedEntry[], end: number): void {
    let next = chain.after + 1;
    for (const seq of [...entries.map((entry) => entry.seq), ...(entries.length === 0 ? [end + 1] : [])]) {
      if (seq > next) {
        const fields = { sink: this.#sink.name, tenant: chain.tenantId, from: next, to: seq - 1 };
        this.#options.log.error('entries of the audit log are missing and were not delivered', fields);
      }
      next = seq + 1;
    }
  }
}

function describeRejection({ rejected }: Receipt, { entries }: Batch): string | undefined {
  return (
    rejected && `the receiver rejected ${rejected.count} of ${entries.length} entries: ${rejected.reason}`
  );
}

/** Reads at most `limit` entries and about `maxBatchBytes` of JSON. */
async function readEntries(
  audit: AuditSource['audit'],
  { tenantId, after, head, batchEnd }: UndeliveredChain,
  limit: number,
): Promise<ChainedEntry[]> {
  const upTo = batchEnd ?? head;
  const entries: ChainedEntry[] = [];
  let bytes = 0;
  while (entries.length < limit && bytes < maxBatchBytes) {
    const range = { after: entries.at(-1)?.seq ?? after, upTo };
    const size = Math.min(rowsPerRead, limit - entries.length);
    const page = await audit.range(tenantId, range, size);
    for (const entry of page.entries) bytes += JSON.stringify(entry).length;
    entries.push(...page.entries);
    if (page.end === undefined) break;
    // SQLite reads block the event loop. Serves requests between two reads.
    await setImmediate();
  }
  return entries;
}

/** Exponential backoff with up to 50 % jitter. A longer `Retry-After` is respected up to `backoff.max`. */
export function delayAfter(failures: number, error: unknown, random: () => number): number {
  const delay = Math.min(backoff.max, backoff.first * 2 ** Math.min(failures - 1, 20));
  const asked = error instanceof DeliveryError ? Math.min(error.retryAfter ?? 0, backoff.max) : 0;
  return Math.max(asked, Math.round(delay * (1 - random() / 2)));
}

/** Describes the error in one line for operators. */
export function describeError(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  const text = error instanceof DeliveryError ? message : [code, message].filter(Boolean).join(': ');
  return escapeText(redactSecrets(text.slice(0, 300)));
}
