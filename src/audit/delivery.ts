/**
 * Delivers the audit log to sinks: every segment at least once, in the order of each chain. The positions are stored in
 * the database, so delivery continues after a restart. In a fleet, only one node at a time delivers to a sink. Sinks do
 * not wait for each other, and requests do not wait for sinks.
 */
import type { Config } from '../config/settings.ts';
import { cut, escapeText } from '../domain/escape.ts';
import { newId, redactSecrets } from '../domain/key.ts';
import { type Batch, makeBatch, testBatch } from './delivery/batch.ts';
import type { Sink, SinkEnvironment } from './delivery/config.ts';
import { Deliveries, type SinkState, type UndeliveredChain } from './delivery/positions.ts';
import { DeliveryError, type Receipt } from './delivery/sender.ts';
import { DamagedChain } from './errors.ts';
import { type AuditDb, chainOf, type StoredSegment, segmentAt } from './log/chain.ts';
import { chainName } from './records.ts';

export type { Sink } from './delivery/config.ts';
export type { Deliveries, SinkState } from './delivery/positions.ts';

/** The segments to deliver, and the repository that records deliveries. */
export interface AuditSource {
  readonly deliveries: Deliveries;
  /**
   * The segment of a chain after `after`. Undefined if it was deleted after its archive or delivery. Throws
   * `DamagedChain` if it is missing or cannot be read.
   */
  nextSegment(tenantId: string, after: number): Promise<StoredSegment | undefined>;
}

export function auditSource(audit: AuditDb): AuditSource {
  return {
    deliveries: new Deliveries(audit),
    nextSegment: async (tenantId, after) => {
      const next = await segmentAt(audit.db, tenantId, after + 1);
      if (next?.packed.all()) return next;
      const chain = await chainOf(audit.db, tenantId);
      if (!next && chain && chain.base.number > after) return undefined;
      throw new DamagedChain(tenantId, 'delivered');
    },
  };
}

/**
 * Reads the configured sinks. Loads the code of sinks only if there are any, because YAML and HTTP clients take a tenth
 * of the time to start. Throws `ConfigError`.
 */
export async function configuredSinks(
  config: Pick<Config, 'sinksFile' | 'sink'>,
  context: SinkEnvironment,
): Promise<Sink[]> {
  if (config.sinksFile === undefined && config.sink === undefined) return [];
  const { readSinks } = await import('./delivery/config.ts');
  return readSinks(config, context);
}

/** Sends a test entry to a sink and returns its id. Rejects if the receiver does not accept it. */
export async function testSink({ sender }: Sink, now: number): Promise<string> {
  const batch = testBatch(now);
  const { rejected } = await sender.send(batch, new AbortController().signal);
  if (rejected) throw new DeliveryError(`the receiver rejected the test event: ${rejected.reason}`);
  return batch.id;
}

interface Logger {
  warn(message: string, fields: Readonly<Record<string, unknown>>): void;
  error(message: string, fields: Readonly<Record<string, unknown>>): void;
}

export interface DeliveryOptions {
  readonly log: Logger;
  readonly observer: { delivered(sink: string, entries: number): void; deliveryFailed(sink: string): void };
  readonly now: () => number;
  /** Returns a number from 0 to 1, the jitter of retries. */
  readonly random: () => number;
  /** If false, entries are delivered only by `flush`. */
  readonly timers: boolean;
}

export interface Delivery {
  /** Delivers all sealed entries. Skips a sink when an attempt fails, or while it waits for its next attempt. */
  flush(): Promise<void>;
  /** Aborts running attempts and releases the leases, so that other nodes can take over immediately. */
  stop(): Promise<void>;
  states(): Promise<SinkState[]>;
  /** The last segment of a chain that all sinks of all nodes have received. Undefined if this node has no sinks. */
  deliveredUpTo(tenantId: string): Promise<number | undefined>;
}

/** Chains per query. */
const chainsPerRound = 100;
/** Milliseconds between two checks of the positions. */
const checkInterval = 60_000;
/** Maximum milliseconds that `stop` waits for running attempts. */
const maxStopTime = 3000;

/**
 * Milliseconds until the next attempt: `first` after one failure, doubled with each further failure up to `max`, or up to
 * `maxAsked` if the receiver asks for it. An attempt sends one segment, so it can be frequent.
 */
const backoff = { first: 1000, max: 30_000, maxAsked: 300_000 };

/** Milliseconds, so that a timer never ends before the time of the next attempt in the database. */
const clockStep = 10;

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
  readonly #source: AuditSource;
  readonly #deliveries: Deliveries;
  readonly #holder: string;
  readonly #stopped: AbortSignal;
  readonly #options: DeliveryOptions;
  readonly #timer: Timer | undefined;
  #retry: Timer | undefined;
  #running: Promise<void> | undefined;
  #isFirstClaim = true;
  #nextCheck = 0;

  constructor(
    sink: Sink,
    source: AuditSource,
    holder: string,
    stopped: AbortSignal,
    options: DeliveryOptions,
  ) {
    this.#sink = sink;
    this.#source = source;
    this.#deliveries = source.deliveries;
    this.#holder = holder;
    this.#stopped = stopped;
    this.#options = options;
    if (options.timers) this.#timer = setInterval(this.#runIfIdle, sink.interval).unref();
  }

  readonly #runIfIdle = () => {
    if (!this.#running) void this.run();
  };

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
    clearTimeout(this.#retry);
    await this.#deliveries
      .release(this.#sink.name, this.#holder)
      .catch((error) => log.warn('could not release a sink', { sink: this.#sink.name, error }));
  }

  /** Delivers until no segments remain or an attempt fails. */
  async #deliverAll(): Promise<void> {
    while (await this.#isHeld()) {
      await this.#reportChanged();
      const chains = await this.#deliveries.undelivered(this.#sink.name, chainsPerRound);
      if (chains.length === 0) return;
      for (const chain of chains) if (!(await this.#isHeld()) || !(await this.#deliverNext(chain))) return;
    }
  }

  /** Chains whose position was changed are not delivered until an operator acknowledges that. */
  async #reportChanged(): Promise<void> {
    const { log, now } = this.#options;
    if (now() < this.#nextCheck) return;
    this.#nextCheck = now() + checkInterval;
    const { name } = this.#sink;
    const chains = (await this.#deliveries.changed(name)).length;
    if (chains > 0)
      log.error('the position of a sink was changed: its delivery stops', { sink: name, chains });
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
    const { name, sender } = this.#sink;
    const { log, observer, random } = this.#options;
    let batch: Batch;
    let receipt: Receipt;
    try {
      const segment = await this.#source.nextSegment(chain.tenantId, chain.after);
      if (!segment) return true;
      batch = makeBatch(segment);
      receipt = await sender.send(batch, this.#stopped);
    } catch (error) {
      if (this.#stopped.aborted) return false;
      observer.deliveryFailed(name);
      const message = describeError(error);
      if (error instanceof DamagedChain) log.error(message, { sink: name });
      else log.warn('could not deliver the audit log to a sink', { sink: name, error: message });
      let delay = 0;
      await this.#deliveries.fail(name, this.#holder, chain, message, (failures) => {
        delay = delayAfter(failures, error, random);
        return delay;
      });
      // A long interval collects entries. It does not delay the next attempt.
      if (this.#timer) this.#retry = setTimeout(this.#runIfIdle, delay + clockStep).unref();
      return false;
    }
    const rejection = describeRejection(receipt, batch);
    if (rejection !== undefined)
      log.error(rejection, { sink: name, chain: chainName(chain.tenantId), batch: batch.id });
    await this.#deliveries.complete(name, this.#holder, chain, batch, rejection);
    observer.delivered(name, batch.entries.length);
    return true;
  }
}

function describeRejection({ rejected }: Receipt, { entries }: Batch): string | undefined {
  return (
    rejected && `the receiver rejected ${rejected.count} of ${entries.length} entries: ${rejected.reason}`
  );
}

/** Exponential backoff with up to 50 % jitter. A longer `Retry-After` is respected. */
export function delayAfter(failures: number, error: unknown, random: () => number): number {
  const delay = Math.min(backoff.max, backoff.first * 2 ** Math.min(failures - 1, 20));
  const asked = error instanceof DeliveryError ? Math.min(error.retryAfter ?? 0, backoff.maxAsked) : 0;
  return Math.max(asked, Math.round(delay * (1 - random() / 2)));
}

/** Describes the error in one line for operators. */
export function describeError(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  const isOurs = error instanceof DeliveryError || error instanceof DamagedChain;
  const text = isOurs ? message : [code, message].filter(Boolean).join(': ');
  return escapeText(cut(redactSecrets(text), 300));
}
