import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readTelemetrySettings } from '../../src/telemetry/settings.ts';
import { auditEntries, failInserts } from '../support/database.ts';
import { databases, openTestServer } from '../support/test-server.ts';

interface Attribute {
  readonly key: string;
  readonly value: { readonly stringValue?: string; readonly intValue?: number };
}
interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly status: { readonly code: number };
  readonly attributes: readonly Attribute[];
}
interface Metric {
  readonly name: string;
  readonly unit: string;
  readonly sum?: {
    readonly isMonotonic: boolean;
    readonly dataPoints: readonly { asDouble: number; attributes: Attribute[] }[];
  };
  readonly gauge?: object;
  readonly histogram?: {
    readonly dataPoints: readonly { count: number; bucketCounts: number[]; explicitBounds: number[] }[];
  };
}

const attributesOf = ({ attributes }: { readonly attributes: readonly Attribute[] }) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue]));

describe.each(databases)('OpenTelemetry on %s', (_, database) => {
  const received = new Map<string, string[]>();
  const collector = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      const { pathname } = new URL(request.url);
      received.set(pathname, [...(received.get(pathname) ?? []), await request.text()]);
      return Response.json({});
    },
  });
  const variables: Record<string, string> = {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector.port}`,
    OTEL_SERVICE_NAME: 'vault',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
  };
  const secrets: string[] = [];
  const trace = 'a'.repeat(32);
  let entries: Awaited<ReturnType<typeof auditEntries>>;

  beforeAll(async () => {
    Object.assign(process.env, variables);
    const server = await openTestServer(database);
    for (const name of Object.keys(variables)) delete process.env[name];
    const { key } = await server.tenant();
    const body = { name: 'x', type: 'private', permissions: ['token:read'] };
    const headers = { traceparent: `00-${trace}-${'b'.repeat(16)}-01` };
    const created = await server.call('POST', '/applications', { key, body, headers });
    await server.call('GET', `/applications/${created.body.id}?secret=query`, { key });
    const unsampled = { traceparent: `00-${'c'.repeat(32)}-${'d'.repeat(16)}-00` };
    await server.call('GET', '/applications/key', { key, headers: unsampled });
    await server.call('GET', '/applications', { key: 'junk' });
    await server.call('GET', `/applications/${crypto.randomUUID()}`, { key });
    await server.call('DELETE', `/applications/${crypto.randomUUID()}`, { key });
    const allow = await failInserts(server.config.databaseUrl, 'audit_pending');
    expect((await server.call('POST', '/applications', { key, body })).status).toBe(503);
    await allow();
    secrets.push(key, created.body.key, created.body.id, 'secret', 'junk');
    await server.flush();
    entries = await auditEntries(server.config.databaseUrl);
    await server.close();
  });
  afterAll(() => collector.stop(true));

  const spans = () =>
    (received.get('/v1/traces') ?? [])
      .flatMap((text) => JSON.parse(text).resourceSpans)
      .flatMap(({ scopeSpans }) => scopeSpans)
      .flatMap((scope: { spans: Span[] }) => scope.spans);

  test('a request is a span that continues its traceparent, with a span per database call', () => {
    const [created] = spans().filter(({ name }) => name === 'POST /applications');
    expect(created).toMatchObject({ traceId: trace, parentSpanId: 'b'.repeat(16), kind: 2 });
    expect(attributesOf(created as Span)).toEqual({
      'http.request.method': 'POST',
      'http.route': '/applications',
      'http.response.status_code': 201,
      'sallyport.operation_id': 'createApplication',
      'sallyport.request_id': expect.any(String),
    });
    const calls = spans().filter(({ parentSpanId }) => parentSpanId === created?.spanId);
    expect(calls.map(({ name }) => name)).toContain('database transaction');
    const system = database.name === 'SQLite' ? 'sqlite' : 'postgresql';
    for (const call of calls)
      expect(attributesOf(call)).toEqual({
        'db.system.name': system,
        'db.operation.name': call.name.slice('database '.length),
      });
    for (const { kind, traceId } of calls) expect([kind, traceId]).toEqual([3, trace]);
  });

  test('a request without a traceparent starts a trace, and one that is not sampled has no span', () => {
    const [read] = spans().filter(({ name }) => name === 'GET /applications/:id');
    expect(read?.parentSpanId ?? '').toBe('');
    expect(read?.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(spans().filter(({ name }) => name === 'GET /applications/key')).toEqual([]);
    const [refused] = spans().filter(({ name }) => name === 'GET /applications');
    expect(attributesOf(refused as Span)['http.response.status_code']).toBe(401);
  });

  test('a failed request and its database call have the code of the cause, and a 404 is no error', () => {
    const failed = spans().filter(({ status }) => status.code === 2);
    const cause = database.name === 'SQLite' ? 'SQLITE_CONSTRAINT_TRIGGER' : '23514';
    const expected = expect.objectContaining({ 'error.type': cause });
    expect(failed.map(({ name }) => name)).toEqual(['database transaction', 'POST /applications']);
    expect(failed.map(attributesOf)).toEqual([expected, expected]);
  });

  test('the audit log has the trace of the request', () => {
    const entry = entries.find(({ operation }) => operation === 'application.create');
    expect(entry?.trace_id).toBe(trace);
  });

  test('metrics are exported as counters, gauges and histograms', () => {
    const text = received.get('/v1/metrics')?.at(-1) ?? '';
    const [resource] = JSON.parse(text).resourceMetrics;
    expect(attributesOf(resource.resource)).toMatchObject({
      'service.name': 'vault',
      'service.version': expect.any(String),
      'deployment.environment.name': 'test',
    });
    const metrics: Metric[] = resource.scopeMetrics.flatMap((scope: { metrics: Metric[] }) => scope.metrics);
    const named = (name: string) => metrics.find((metric) => metric.name === name);
    const failed = named('sallyport_authentications_total')?.sum;
    expect(failed?.isMonotonic).toBe(true);
    expect(failed?.dataPoints.map((point) => [attributesOf(point).result, point.asDouble])).toEqual([
      ['ok', 5],
      ['failed', 1],
    ]);
    expect(named('process_resident_memory_bytes')).toMatchObject({ unit: 'By', gauge: {} });
    const durations = named('sallyport_http_request_duration_seconds');
    expect(durations?.unit).toBe('s');
    for (const { count, bucketCounts, explicitBounds } of durations?.histogram?.dataPoints ?? []) {
      expect(bucketCounts.reduce((total, each) => total + each, 0)).toBe(count);
      expect(bucketCounts).toHaveLength(explicitBounds.length + 1);
    }
  });

  test('nothing contains a key, an id, a path or a query of a request', () => {
    const all = [...received.values()].flat().join('\n');
    for (const secret of secrets) expect(all).not.toContain(secret);
  });
});

describe('the settings of OpenTelemetry', () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' };
  const on = { traces: { ratio: 1, parentBased: true }, metrics: { interval: 60_000 } };
  test.each<[Record<string, string>, object]>([
    [{}, { traces: undefined, metrics: undefined }],
    [endpoint, on],
    [
      { ...endpoint, OTEL_SDK_DISABLED: 'true' },
      { traces: undefined, metrics: undefined },
    ],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://h/t' }, { ...on, metrics: undefined }],
    [
      { ...endpoint, OTEL_TRACES_EXPORTER: 'none' },
      { ...on, traces: undefined },
    ],
    [
      { ...endpoint, OTEL_METRICS_EXPORTER: 'none' },
      { ...on, metrics: undefined },
    ],
    [
      { ...endpoint, OTEL_METRIC_EXPORT_INTERVAL: '5000' },
      { ...on, metrics: { interval: 5000 } },
    ],
    [
      { ...endpoint, OTEL_TRACES_SAMPLER: 'always_off' },
      { ...on, traces: { ratio: 0, parentBased: false } },
    ],
    [
      { ...endpoint, OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.1' },
      { ...on, traces: { ratio: 0.1, parentBased: true } },
    ],
  ])('%j', (env, expected) => {
    expect(readTelemetrySettings(env)).toEqual(expected as ReturnType<typeof readTelemetrySettings>);
  });

  test.each([
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, 'OTEL_EXPORTER_OTLP_PROTOCOL must be http/json, not "grpc"'],
    [{ OTEL_TRACES_EXPORTER: 'zipkin' }, 'OTEL_TRACES_EXPORTER must be otlp or none, not "zipkin"'],
    [{ OTEL_TRACES_SAMPLER: 'some' }, 'OTEL_TRACES_SAMPLER must be always_on'],
    [
      { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' },
      'OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1, not "2"',
    ],
    [{ OTEL_METRIC_EXPORT_INTERVAL: '1s' }, 'OTEL_METRIC_EXPORT_INTERVAL must be a number of milliseconds'],
    [{ OTEL_METRIC_EXPORT_INTERVAL: '2147483648' }, 'milliseconds from 1000 to 2147483647'],
  ])('%j is rejected', (env, message) => {
    expect(() => readTelemetrySettings({ ...endpoint, ...env })).toThrow(message);
  });
});
