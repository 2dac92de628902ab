/** What the program tells of itself to whoever watches it: which figures there are, and where they come from. */
import { Registry } from './metrics.ts';
import type { Gauges } from './store/maintenance.ts';
import { version } from './version.ts';

/** Called on the way of every request, so each is a few additions at most. */
export interface Observer {
  /** `guarded`: whether the route is behind a key. */
  request(route: string, guarded: boolean, status: number, seconds: number): void;
  decision(allowed: boolean): void;
  /** Which limit turned a request away. */
  limited(limit: string): void;
  database(operation: string, seconds: number): void;
  swept(rows: number): void;
}

/** For when nobody watches. */
export const unobserved: Observer = {
  request: () => {},
  decision: () => {},
  limited: () => {},
  database: () => {},
  swept: () => {},
};

export interface Observed extends Observer {
  text(): Promise<string>;
}

export function observe(figures: () => Promise<Gauges>, inFlight: () => number): Observed {
  const registry = new Registry();
  const requests = registry.histogram(
    'sallyport_http_request_duration_seconds',
    'Time to answer, by route and status.',
  );
  const authentications = registry.counter(
    'sallyport_authentications_total',
    'Keys that were looked at, by result.',
  );
  const decisions = registry.counter('sallyport_decisions_total', 'Answers of POST /decisions, by outcome.');
  const limits = registry.counter('sallyport_limited_total', 'Requests that a limit turned away, by limit.');
  const database = registry.histogram(
    'sallyport_database_duration_seconds',
    'Time that the database took, by kind of statement.',
  );
  const swept = registry.counter('sallyport_swept_rows_total', 'Expired rows whose space was freed.');
  let latest: Gauges | undefined;
  gauges(registry, inFlight, () => latest);
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
    text: async () => {
      latest = await figures().catch(() => undefined);
      return registry.text();
    },
  };
}

function gauges(registry: Registry, inFlight: () => number, latest: () => Gauges | undefined): void {
  const gauge = (name: string, help: string, value: () => number | undefined) =>
    registry.gauge(name, help, () => {
      const now = value();
      return now === undefined ? [] : [[{}, now]];
    });
  registry.gauge('sallyport_build_info', 'The version that runs.', () => [
    [{ version, bun: Bun.version }, 1],
  ]);
  gauge('sallyport_database_up', 'Whether the database answered this scrape.', () => (latest() ? 1 : 0));
  gauge('sallyport_database_in_flight', 'Statements and transactions that wait for the database.', inFlight);
  gauge('sallyport_database_bytes', 'Size of the database.', () => latest()?.bytes);
  registry.gauge('sallyport_rows', 'Rows, as the database estimates them.', () =>
    Object.entries(latest()?.rows ?? {}).map(([table, rows]) => [{ table }, rows] as const),
  );
  gauge(
    'sallyport_applications_expiring',
    'Applications that expire within a week.',
    () => latest()?.expiring,
  );
  gauge(
    'sallyport_sweep_lag_seconds',
    'For how long the oldest expired row has waited to be freed.',
    () => latest()?.sweepLag,
  );
  gauge('sallyport_audit_unsealed', 'Audit rows that wait to be sealed.', () => latest()?.unchained);
  gauge('process_resident_memory_bytes', 'Memory of the process.', () => process.memoryUsage.rss());
  gauge('process_cpu_seconds_total', 'Processor time of the process.', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  gauge('process_uptime_seconds', 'For how long the process has run.', () => process.uptime());
}
