import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { routes } from '../../src/http/routes.ts';
import { Registry } from '../../src/telemetry/metrics.ts';
import { failInserts } from '../support/database.ts';
import { databases, fewConnections, openTestServer } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';

describe('the registry', () => {
  test('writes counters, gauges and histograms in the Prometheus text format', () => {
    const registry = new Registry();
    registry.counter('c_total', 'Counts.', [{ kind: 'a"b' }, { kind: 'none' }]).add({ kind: 'a"b' }, 2);
    registry.externalCounter('e_total', 'Counted elsewhere.', () => [[{}, 3]]);
    registry.gauge('g', 'Now.', () => [[{}, 1.5]]);
    const histogram = registry.histogram('h_seconds', 'Takes.');
    histogram.observe({ route: 'x' }, 0.0004);
    histogram.observe({ route: 'x' }, 99);
    const text = registry.text();
    expect(text).toStartWith(
      '# HELP c_total Counts.\n# TYPE c_total counter\nc_total{kind="a_b"} 2\nc_total{kind="none"} 0\n',
    );
    expect(text).toContain('# TYPE e_total counter\ne_total 3\n');
    expect(text).toContain('\ng 1.5\n');
    expect(text).toContain('h_seconds_bucket{route="x",le="0.00025"} 0\n');
    expect(text).toContain('h_seconds_bucket{route="x",le="0.0005"} 1\n');
    expect(text).toContain('h_seconds_bucket{route="x",le="10"} 1\n');
    expect(text).toContain('h_seconds_bucket{route="x",le="+Inf"} 2\n');
    expect(text).toContain('h_seconds_count{route="x"} 2\n');
    expect(text).toEndWith('\n');
  });
});

const sink = JSON.stringify({ name: 'siem', type: 'file', path: '/nowhere/audit.jsonl' });
const docs = (name: string) => readFileSync(join(import.meta.dirname, '../../docs', name), 'utf8');

describe.each(databases)('metrics on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_METRICS_PORT: '0', SALLYPORT_SINK: sink });

  const scrape = async () => (await fetch(server.app.metricsUrl as string)).text();
  const readValue = (text: string, series: string) =>
    Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${series} `))
        ?.slice(series.length + 1),
    );

  const errors503 = 'sallyport_http_errors_total{status="503"}';

  test('have their counters from the start, the limits of the process and, on PostgreSQL, connections', async () => {
    const text = await scrape();
    const counters = [
      errors503,
      'sallyport_http_errors_total{status="500"}',
      'sallyport_http_errors_total{status="507"}',
      'sallyport_authentications_total{result="failed"}',
      'sallyport_decisions_total{outcome="denied"}',
      'sallyport_limited_total{limit="storage"}',
      'sallyport_swept_rows_total',
      'sallyport_sink_failures_total{sink="siem"}',
    ];
    for (const series of counters) expect([series, readValue(text, series)]).toEqual([series, 0]);
    expect(readValue(text, 'process_open_fds')).toBeGreaterThan(3);
    expect(readValue(text, 'process_max_fds')).toBeGreaterThan(readValue(text, 'process_open_fds'));
    expect(Math.abs(readValue(text, 'process_start_time_seconds') - Date.now() / 1000)).toBeLessThan(3600);
    expect(readValue(text, 'sallyport_clock_offset_seconds')).toBe(0);
    const onPostgres = database.name === 'PostgreSQL';
    expect(readValue(text, 'sallyport_database_pool_size')).toBe(onPostgres ? fewConnections : Number.NaN);
    const busy = readValue(text, 'sallyport_database_connections{state="busy"}');
    expect(busy >= 1).toBe(onPostgres);
    expect(readValue(text, 'sallyport_database_connections_max') > busy).toBe(onPostgres);
  });

  test('count the problems of the node, which the log names once', async () => {
    const counts = async () => {
      await server.flush();
      const text = await scrape();
      return ['schema', 'memory', 'witness', 'address'].map((problem) =>
        readValue(text, `sallyport_node_problems{problem="${problem}"}`),
      );
    };
    const witness = Number(database.name === 'PostgreSQL');
    expect(await counts()).toEqual([0, 0, witness, 0]);
    const url = server.config.databaseUrl;
    await runSql(url, "insert into schema_versions (version, name, hash) values (999, 'new', 'x')");
    expect(await counts()).toEqual([1, 0, witness, 0]);
    await counts();
    await runSql(url, 'delete from schema_versions where version = 999');
    expect(await counts()).toEqual([0, 0, witness, 0]);
    expect(server.logged.filter((line) => line.includes('the database has schema 999'))).toHaveLength(1);
  });

  test('count requests, authentications, decisions and rows, without ids or keys', async () => {
    const { key, id } = await server.tenant();
    const soon = new Date(server.clock.now() + 86_400_000).toISOString();
    const created = await server.application(key, { expires_at: soon });
    await server.call('GET', `/applications/${created.id}`, { key });
    await server.call('GET', '/applications', { key: created.key });
    await server.call('GET', '/applications', { key: 'junk' });
    const ask = (permission: string) =>
      server.call('POST', '/decisions', { key, body: { credential: created.key, permission } });
    await ask('token:read');
    await ask('token:delete');
    await server.flush();
    const text = await scrape();
    const requests = 'sallyport_http_request_duration_seconds_count';
    expect(readValue(text, `${requests}{route="getApplication",status="200"}`)).toBe(1);
    expect(readValue(text, `${requests}{route="listApplications",status="401"}`)).toBe(1);
    expect(readValue(text, `${requests}{route="listApplications",status="403"}`)).toBe(1);
    expect(readValue(text, 'sallyport_authentications_total{result="ok"}')).toBe(5);
    expect(readValue(text, 'sallyport_authentications_total{result="failed"}')).toBe(1);
    expect(readValue(text, 'sallyport_decisions_total{outcome="allowed"}')).toBe(1);
    expect(readValue(text, 'sallyport_decisions_total{outcome="denied"}')).toBe(1);
    expect(readValue(text, 'sallyport_database_duration_seconds_count{operation="lookup"}')).toBeGreaterThan(
      0,
    );
    expect(readValue(text, 'sallyport_database_up')).toBe(1);
    expect(readValue(text, 'sallyport_database_bytes')).toBeGreaterThan(10_000);
    expect(readValue(text, 'sallyport_applications_expiring')).toBe(1);
    expect(readValue(text, 'sallyport_audit_unsealed')).toBe(0);
    expect(text).toContain('# TYPE process_cpu_seconds_total counter\n');
    for (const secret of [key, created.key, id, created.id, created.key.slice(-4)])
      expect(text).not.toContain(secret);
  });

  test('do not read the database when they are scraped', async () => {
    const statements = 'sallyport_database_duration_seconds_count';
    const sum = (text: string) =>
      [...text.matchAll(new RegExp(`^${statements}.* (\\d+)$`, 'gm'))].reduce(
        (all, [, n]) => all + Number(n),
        0,
      );
    const before = sum(await scrape());
    expect(before).toBeGreaterThan(0);
    await scrape();
    expect(sum(await scrape())).toBe(before);
  });

  test('and the log include requests without a route, under fixed names', async () => {
    const path = `/nowhere-${crypto.randomUUID()}`;
    expect((await server.call('GET', `${path}?q=hidden`)).status).toBe(404);
    expect((await server.call('DELETE', '/livez')).status).toBe(405);
    expect((await server.call('OPTIONS', '/tokens')).status).toBe(204);
    const text = await scrape();
    const requests = 'sallyport_http_request_duration_seconds_count';
    expect(readValue(text, `${requests}{route="unknownPath",status="404"}`)).toBe(1);
    expect(readValue(text, `${requests}{route="wrongMethod",status="405"}`)).toBe(1);
    expect(readValue(text, `${requests}{route="preflight",status="204"}`)).toBe(1);
    expect(text).not.toContain(path);
    const logged = server.logged
      .map((line) => JSON.parse(line))
      .filter(({ message }) => message === 'request');
    expect(logged.slice(-3)).toMatchObject([
      { method: 'GET', path, status: 404 },
      { method: 'DELETE', path: '/livez', status: 405 },
      { method: 'OPTIONS', path: '/tokens', status: 204 },
    ]);
    const names = routes.map(({ name }) => name);
    for (const taken of ['unknownPath', 'wrongMethod', 'preflight']) expect(names).not.toContain(taken);
  });

  test('are not served on the port of the service', async () => {
    expect((await server.call('GET', '/metrics')).status).toBe(404);
  });

  test('show failed writes that /readyz does not show', async () => {
    const { key } = await server.tenant();
    const allow = await failInserts(server.config.databaseUrl, 'audit_pending');
    const body = { name: 'x', type: 'private', permissions: ['token:read'] };
    expect((await server.call('POST', '/applications', { key, body })).status).toBe(503);
    expect((await server.call('GET', '/readyz')).status).toBe(200);
    await allow();
    const text = await scrape();
    expect([readValue(text, errors503), readValue(text, 'sallyport_database_up')]).toEqual([1, 1]);
  });

  test('include the metrics that the dashboard and docs/operations/monitoring.md use', async () => {
    const text = await scrape();
    const used = new Set(
      `${docs('operations/grafana.json')}${docs('operations/monitoring.md')}${docs('../deploy/prometheus/alerts.yaml')}`.match(
        /\b(sallyport|process)_[a-z_]+[a-z]\b/g,
      ),
    );
    const known = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name, type]) =>
      type === 'histogram' ? [name, `${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
    );
    expect([...used].filter((name) => !known.includes(name))).toEqual([]);
    expect(used.size).toBeGreaterThan(8);
  });

  test('are all documented with their types', async () => {
    const types = (text: string, pattern: RegExp) =>
      Object.fromEntries(Array.from(text.matchAll(pattern), ([, name, type]) => [name as string, type]));
    const documented = types(docs('operations/monitoring.md'), /^\| `(sallyport_\w+)` \| (\w+) \|/gm);
    const served = types(await scrape(), /^# TYPE (sallyport_\w+) (\w+)$/gm);
    expect(documented).toMatchObject(served);
    expect(Object.keys(served).length).toBeGreaterThan(20);
  });

  test('of limits are documented by name', async () => {
    const names = Array.from(
      (await scrape()).matchAll(/^sallyport_limited_total{limit="([^"]+)"}/gm),
      ([, name]) => name,
    );
    const row = /^\| `sallyport_limited_total` .*by `limit`: (.*) \|$/m.exec(
      docs('operations/monitoring.md'),
    )?.[1];
    expect(row).toBe(names.map((name) => `\`${name}\``).join(', '));
  });
});
