/** Declares the Prometheus metrics and records them. */
import { Registry } from './metrics.ts';
import type { SinkState } from './store/audit/deliveries.ts';
import type { Gauges, Maintenance } from './store/maintenance.ts';
import { version } from './version.ts';

/** Called on every request, so every method must be cheap. */
export interface Observer {
  /** `guarded`: whether the route requires a key. */
  request(route: string, guarded: boolean, status: number, seconds: number): void;
  decision(allowed: boolean): void;
  /** Counts a request that a rate limit or quota rejected. */
  limited(limit: string): void;
  database(operation: string, seconds: number): void;
  swept(rows: number): void;
  /** Counts a batch of the audit log that a sink has confirmed. */
  delivered(sink: string, entries: number): void;
  /** Counts a failed attempt. */
  deliveryFailed(sink: string): void;
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
};

export interface Observed extends Observer {
  text(): Promise<string>;
}

/** Read on every scrape. */
export interface GaugeSources {
  maintenance(): Pick<Maintenance, 'gauges' | 'inFlight'>;
  readSinks(): Promise<readonly SinkState[]>;
}

export function observe({ maintenance, readSinks }: GaugeSources): Observed {
  const registry = new Registry();
  const requests = registry.histogram(
    'sallyport_http_request_duration_seconds',
    'Response time by route and status.',
  );
  const authentications = registry.counter(
    'sallyport_authentications_total',
    'Authentication attempts by result.',
  );
  const decisions = registry.counter('sallyport_decisions_total', 'Decisions of POST /decisions by outcome.');
  const limits = registry.counter(
    'sallyport_limited_total',
    'Requests rejected by a rate limit or quota, by limit.',
  );
  const database = registry.histogram('sallyport_database_duration_seconds', 'Database time by operation.');
  const swept = registry.counter('sallyport_swept_rows_total', 'Expired rows removed by the sweep.');
  const deliveries = registry.counter(
    'sallyport_sink_deliveries_total',
    'Batches of the audit log that a sink has confirmed.',
  );
  const delivered = registry.counter(
    'sallyport_sink_entries_total',
    'Audit entries in the batches that a sink has confirmed.',
  );
  const failures = registry.counter('sallyport_sink_failures_total', 'Failed attempts to deliver to a sink.');
  let latest: Gauges | undefined;
  let sinks: readonly SinkState[] = [];
  gauges(
    registry,
    () => maintenance().inFlight(),
    () => latest,
  );
  sinkGauges(registry, () => sinks);
  return {
    request: (route, guarded, status, seconds) => {
      requests.observe({ route, status: String(status) }, seconds);
      if (guarded && status !== 429 && status < 500)
        authentications.add({ result: status === 401 ? 'failed' : 'ok' });
    },
    decision: (allowed) => decisions.add({ outcome: allowed ? 'allowed' : 'denied' }),
    limited: (limit) => limits.add({ limit }),
    database: (operation, seconds) => database.observe({ operation }, seconds),
    swept: (rows) => swept.add({}, rows),
    delivered: (sink, entries) => {
      deliveries.add({ sink });
      delivered.add({ sink }, entries);
    },
    deliveryFailed: (sink) => failures.add({ sink }),
    text: async () => {
      latest = await maintenance()
        .gauges()
        .catch(() => undefined);
      sinks = latest ? await readSinks().catch(() => []) : [];
      return registry.text();
    },
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
}

function gauges(registry: Registry, inFlight: () => number, latest: () => Gauges | undefined): void {
  const gauge = (name: string, help: string, value: () => number | undefined) =>
    registry.gauge(name, help, () => {
      const now = value();
      return now === undefined ? [] : [[{}, now]];
    });
  registry.gauge('sallyport_build_info', 'Running version.', () => [[{ version, bun: Bun.version }, 1]]);
  gauge('sallyport_database_up', '1 if the database answered this scrape, otherwise 0.', () =>
    latest() ? 1 : 0,
  );
  gauge('sallyport_database_in_flight', 'Statements and transactions in progress.', inFlight);
  gauge('sallyport_database_bytes', 'Database size.', () => latest()?.bytes);
  registry.gauge('sallyport_rows', 'Estimated number of rows by table.', () =>
    Object.entries(latest()?.rows ?? {}).map(([table, rows]) => [{ table }, rows] as const),
  );
  gauge(
    'sallyport_applications_expiring',
    'Applications that expire within a week.',
    () => latest()?.expiring,
  );
  gauge(
    'sallyport_keys_expiring',
    'Keys with an expiry of their own within a week.',
    () => latest()?.expiringKeys,
  );
  gauge(
    'sallyport_sweep_lag_seconds',
    'Age of the oldest expired row that is not removed yet.',
    () => latest()?.sweepLag,
  );
  gauge('sallyport_audit_unchained', 'Audit entries that are not chained yet.', () => latest()?.unchained);
  gauge('process_resident_memory_bytes', 'Resident memory.', () => process.memoryUsage.rss());
  gauge('process_cpu_seconds_total', 'User and system CPU time.', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  gauge('process_uptime_seconds', 'Time since the start of the process.', () => process.uptime());
}
