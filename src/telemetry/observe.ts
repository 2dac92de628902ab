/** Declares the Prometheus metrics and records them. */

import { readdirSync, readFileSync } from 'node:fs';
import type { SinkState } from '../audit/delivery.ts';
import { build } from '../config/version.ts';
import { newestSchema } from '../db/migrate.ts';
import type { Gauges, Maintenance } from '../store/maintenance.ts';
import { type Family, Registry } from './metrics.ts';

/** Called on every request, so every method must be cheap. */
export interface Observer {
  /** `guarded`: whether the route requires a key. */
  request(route: string, guarded: boolean, status: number, seconds: number): void;
  decision(allowed: boolean): void;
  /** Counts a request that a rate limit or quota rejected. */
  limited(limit: Limit): void;
  database(operation: string, seconds: number): void;
  swept(rows: number): void;
  /** Counts a batch of the audit log that a sink has confirmed. */
  delivered(sink: string, entries: number): void;
  /** Counts a failed attempt to deliver a batch. */
  deliveryFailed(sink: string): void;
  clockJumped(direction: 'forward' | 'back'): void;
  /** Counts a request to the destination with this id. The outcome is `replied` or an error code. */
  used(destination: string, outcome: string, seconds: number): void;
  /** Counts a request with a key that is only for emergencies. */
  brokeGlass(): void;
}

/** Used when metrics are off. */
export const unobserved: Observer = {
  request: () => {},
  decision: () => {},
  limited: () => {},
  database: () => {},
  swept: () => {},
  delivered: () => {},
  deliveryFailed: () => {},
  clockJumped: () => {},
  used: () => {},
  brokeGlass: () => {},
};

export interface Observed extends Observer {
  /** Reads the gauges of the database and of the sinks. `text` and `families` have the values of the last reading. */
  readGauges(): Promise<void>;
  /** In the Prometheus text format. */
  text(): string;
  readonly families: readonly Family[];
}

/** The name of the database in OpenTelemetry. */
export type DatabaseSystem = 'sqlite' | 'postgresql';

/** Records spans. Called only if traces are on. */
export interface RequestTracer {
  /** Runs `handle` in a span, which continues the trace of the `traceparent` header. */
  request(
    route: { readonly method: string; readonly path: string; readonly name: string },
    request: Request,
    /** The method sets `traceId` to that of the span. `failure` is the error of a response with a status from 500 on. */
    requestInfo: { readonly requestId: string; traceId: string | undefined; readonly failure: unknown },
    handle: () => Promise<Response>,
  ): Promise<Response>;
  /** Adds a span for a database call that just ended to the current request. Does nothing outside a request. */
  database(operation: string, seconds: number, error?: unknown): void;
}

export interface MetricSources {
  maintenance(): Pick<Maintenance, 'gauges' | 'inFlight'>;
  readSinks(): Promise<readonly SinkState[]>;
  node(): {
    /** Seconds by which the clock of this machine is ahead of that of the database. Undefined if not known yet. */
    clockOffset(): number | undefined;
    problems(): readonly { readonly name: string }[];
  };
  /** The PostgreSQL server that this process uses or used last. */
  databaseHost(): string | undefined;
  /** The ids of the destinations that get no requests at present. */
  suspendedDestinations(): readonly string[];
  readonly problemKinds: readonly string[];
  readonly sinkNames: readonly string[];
  /** The maximum number of connections of this process. Undefined for SQLite. */
  readonly poolSize: number | undefined;
}

const limits = [
  'address',
  'key',
  'sessions',
  'revocations',
  'exchanges',
  'pending-sessions',
  'delegations',
  'long-rules',
  'tokens',
  'token-bytes',
  'searches',
  'search-misses',
  'uses',
  'processing',
  'storage',
] as const;
/** Destinations with their own series. All others share one, so that the number of series is bounded. */
const maxDestinations = 50;

/** The name of a rate limit or quota that can reject requests. */
export type Limit = (typeof limits)[number];

export function observe(sources: MetricSources): Observed {
  const { maintenance, readSinks } = sources;
  const registry = new Registry();
  const recorded = declare(registry, sources.sinkNames);
  let latest: Gauges | undefined;
  let sinks: readonly SinkState[] = [];
  databaseGauges(registry, sources, () => latest);
  gauges(registry, sources, () => latest);
  addProcessMetrics(registry);
  sinkGauges(registry, () => sinks);
  const destinations = new Set<string>();
  const labelOf = (id: string) => {
    if (destinations.size < maxDestinations) destinations.add(id);
    return { destination: destinations.has(id) ? id : 'other' };
  };
  registry.gauge(
    'sallyport_destination_suspended',
    'Destinations that get no requests, at least of one application, because the last ones failed.',
    () =>
      Array.from(
        Map.groupBy(sources.suspendedDestinations(), (id) => labelOf(id).destination),
        ([destination, ids]) => [{ destination }, ids.length] as const,
      ),
  );
  async function readGauges(): Promise<void> {
    latest = await maintenance()
      .gauges()
      .catch(() => undefined);
    sinks = latest ? await readSinks().catch(() => []) : [];
  }

  return {
    request: (route, guarded, status, seconds) => {
      recorded.requests.observe({ route, status: String(status) }, seconds);
      if (status >= 500 && route !== 'ready') recorded.errors.add({ status: String(status) });
      if (guarded && status !== 429 && status < 500)
        recorded.authentications.add({ result: status === 401 ? 'failed' : 'ok' });
    },
    decision: (allowed) => recorded.decisions.add({ outcome: allowed ? 'allowed' : 'denied' }),
    limited: (limit) => recorded.limited.add({ limit }),
    database: (operation, seconds) => recorded.database.observe({ operation }, seconds),
    swept: (rows) => recorded.swept.add({}, rows),
    delivered: (sink, entries) => {
      recorded.deliveries.add({ sink });
      recorded.delivered.add({ sink }, entries);
    },
    deliveryFailed: (sink) => recorded.failures.add({ sink }),
    clockJumped: (direction) => recorded.clockJumps.add({ direction }),
    used: (id, outcome, seconds) => {
      recorded.uses.add({ ...labelOf(id), outcome });
      recorded.useTimes.observe(labelOf(id), seconds);
      if (outcome === 'destination_echoed_data') recorded.echoes.add({});
    },
    brokeGlass: () => recorded.brokenGlass.add({}),
    readGauges,
    text: () => registry.text(),
    families: registry.families,
  };
}

/** Declares the metrics that requests and background jobs record. */
function declare(registry: Registry, sinkNames: readonly string[]) {
  const bySink = sinkNames.map((sink) => ({ sink }));
  return {
    requests: registry.histogram(
      'sallyport_http_request_duration_seconds',
      'Response time by route and status.',
    ),
    errors: registry.counter(
      'sallyport_http_errors_total',
      'Responses with a status from 500 on, without those of /readyz, by status.',
      [{ status: '500' }, { status: '503' }, { status: '507' }],
    ),
    authentications: registry.counter(
      'sallyport_authentications_total',
      'Authentication attempts by result.',
      [{ result: 'ok' }, { result: 'failed' }],
    ),
    decisions: registry.counter('sallyport_decisions_total', 'Decisions of POST /decisions by outcome.', [
      { outcome: 'allowed' },
      { outcome: 'denied' },
    ]),
    limited: registry.counter(
      'sallyport_limited_total',
      'Requests rejected by a rate limit or quota, by limit.',
      limits.map((limit) => ({ limit })),
    ),
    database: registry.histogram('sallyport_database_duration_seconds', 'Database time by operation.'),
    swept: registry.counter('sallyport_swept_rows_total', 'Expired rows removed by the sweep.', [{}]),
    deliveries: registry.counter(
      'sallyport_sink_deliveries_total',
      'Batches of the audit log that a sink has confirmed.',
      bySink,
    ),
    delivered: registry.counter(
      'sallyport_sink_entries_total',
      'Audit entries in the batches that a sink has confirmed.',
      bySink,
    ),
    failures: registry.counter(
      'sallyport_sink_failures_total',
      'Failed attempts to deliver to a sink.',
      bySink,
    ),
    clockJumps: registry.counter(
      'sallyport_clock_jumps_total',
      'Jumps of the clock that decides on expiry, by direction.',
      [{ direction: 'forward' }, { direction: 'back' }],
    ),
    uses: registry.counter(
      'sallyport_destination_requests_total',
      'Requests to destinations by outcome.',
      [],
    ),
    useTimes: registry.histogram(
      'sallyport_destination_request_duration_seconds',
      'Time of requests to destinations, with the wait for a connection.',
    ),
    // Always there: an alert does not see the first request of a new series.
    echoes: registry.counter(
      'sallyport_destination_echoes_total',
      'Replies of destinations that repeated data of tokens, whose use then stops, or their own credential.',
      [{}],
    ),
    brokenGlass: registry.counter(
      'sallyport_break_glass_total',
      'With SALLYPORT_CONSOLE_KEYS=off: requests with a stored key of an application to which people sign in by name.',
      [{}],
    ),
  };
}

function sinkGauges(registry: Registry, states: () => readonly SinkState[]): void {
  registry.gauge('sallyport_sink_lag_entries', 'Audit entries that a sink has not received yet.', () =>
    states().map(({ name: sink, lagEntries }) => [{ sink }, lagEntries]),
  );
  registry.gauge(
    'sallyport_sink_lag_seconds',
    'Age of the oldest audit entry that a sink has not received yet.',
    () => states().map(({ name: sink, lagSeconds }) => [{ sink }, lagSeconds]),
  );
  registry.gauge(
    'sallyport_sink_rejected_chains',
    'Chains of the audit log in which a sink has rejected entries, or a changed position.',
    () =>
      states().map(({ name: sink, rejectedChains, changedPositions }) => [
        { sink },
        rejectedChains + changedPositions,
      ]),
  );
}

type Latest = () => Gauges | undefined;

/** Adds a gauge. While its value is undefined, the output does not contain it. */
function addGauge(registry: Registry, name: string, help: string, value: () => number | undefined): void {
  registry.gauge(name, help, () => {
    const now = value();
    return now === undefined ? [] : [[{}, now]];
  });
}

function databaseGauges(registry: Registry, sources: MetricSources, latest: Latest): void {
  const gauge = addGauge.bind(undefined, registry);
  gauge(
    'sallyport_database_up',
    '1 if the database answered the last reading of the gauges, otherwise 0.',
    () => (latest() ? 1 : 0),
  );
  gauge('sallyport_disk_full', 'SQLite: 1 if the disk is full, otherwise 0.', () => latest()?.diskFull);
  gauge('sallyport_database_in_flight', 'Statements and transactions in progress.', () =>
    sources.maintenance().inFlight(),
  );
  gauge(
    'sallyport_database_pool_size',
    'Maximum number of PostgreSQL connections of this process.',
    () => sources.poolSize,
  );
  registry.gauge(
    'sallyport_database_connections',
    'Open PostgreSQL connections of the role of the service, from all nodes, by state.',
    () => {
      const { busy, idle } = latest()?.connections ?? {};
      if (busy === undefined || idle === undefined) return [];
      return [
        [{ state: 'busy' }, busy],
        [{ state: 'idle' }, idle],
      ];
    },
  );
  gauge(
    'sallyport_database_connections_max',
    'Connections that the PostgreSQL server accepts, without those reserved for superusers.',
    () => latest()?.connections?.max,
  );
  gauge('sallyport_database_bytes', 'Database size.', () => latest()?.bytes);
  registry.gauge('sallyport_rows', 'Estimated number of rows by table.', () =>
    Object.entries(latest()?.rows ?? {}).map(([table, rows]) => [{ table }, rows] as const),
  );
}

function gauges(registry: Registry, sources: MetricSources, latest: Latest): void {
  const gauge = addGauge.bind(undefined, registry);
  const labels = { version: build(), schema: String(newestSchema), bun: Bun.version };
  registry.gauge('sallyport_build_info', 'Running version and its schema.', () => [[labels, 1]]);
  registry.gauge(
    'sallyport_database_host',
    'The PostgreSQL server that this node uses, or used last.',
    () => {
      const host = sources.databaseHost();
      return host === undefined ? [] : [[{ host }, 1]];
    },
  );
  registry.gauge('sallyport_node_problems', 'Problems of this node that doctor reports, by kind.', () => {
    const found = sources.node().problems();
    return sources.problemKinds.map((problem) => [
      { problem },
      found.filter(({ name }) => name === problem).length,
    ]);
  });
  gauge(
    'sallyport_clock_offset_seconds',
    'Seconds by which the clock of this machine is ahead of that of the database.',
    () => sources.node().clockOffset(),
  );
  gauge(
    'sallyport_applications_expiring',
    'Applications that expire within a week.',
    () => latest()?.expiring,
  );
  gauge(
    'sallyport_keys_expiring',
    'Keys with an individual expiry within a week.',
    () => latest()?.expiringKeys,
  );
  gauge(
    'sallyport_sweep_lag_seconds',
    'Age of the oldest expired row that is not removed yet.',
    () => latest()?.sweepLag,
  );
  gauge('sallyport_audit_unsealed', 'Audit entries that are not sealed yet.', () => latest()?.unsealed);
}

function addProcessMetrics(registry: Registry): void {
  const gauge = addGauge.bind(undefined, registry);
  const startTime = performance.timeOrigin / 1000;
  const maxFiles = readMaxFiles();
  registry.externalCounter('process_cpu_seconds_total', 'User and system CPU time.', () => {
    const { user, system } = process.cpuUsage();
    return [[{}, (user + system) / 1e6]];
  });
  gauge('process_resident_memory_bytes', 'Resident memory.', () => process.memoryUsage.rss());
  gauge('process_start_time_seconds', 'Start of the process, in seconds since 1970.', () => startTime);
  gauge('process_open_fds', 'Open file descriptors, on Linux.', countOpenFiles);
  gauge('process_max_fds', 'Maximum number of open file descriptors, on Linux.', () => maxFiles);
}

/** Does not count the descriptor that `readdirSync` opens. */
function countOpenFiles(): number | undefined {
  try {
    return readdirSync('/proc/self/fd').length - 1;
  } catch {
    return undefined;
  }
}

function readMaxFiles(): number | undefined {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}
