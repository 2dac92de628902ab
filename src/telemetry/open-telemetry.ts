/**
 * Exports traces and metrics with the packages of OpenTelemetry. start-telemetry.ts imports this file only if traces or
 * metrics are on, because loading the packages takes time and memory.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Context,
  DiagLogLevel,
  diag,
  type HrTime,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  ValueType,
} from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  detectResources,
  emptyResource,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import {
  AggregationTemporality,
  DataPointType,
  MeterProvider,
  type MetricData,
  type MetricProducer,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { version } from '../config/version.ts';
import { Failure, problem } from '../domain/error.ts';
import type { Log } from './log.ts';
import { bounds, type Family, type HistogramSeries } from './metrics.ts';
import type { DatabaseSystem, Observed, RequestTracer } from './observe.ts';
import type { SamplerSettings, TelemetrySettings } from './settings.ts';

export interface Telemetry {
  /** Undefined if traces are off. */
  readonly tracer: RequestTracer | undefined;
  /** Exports metrics periodically, if they are on. */
  exportMetrics(families: Observed['families']): void;
  /** Exports the remaining spans and metrics. Takes at most three seconds. */
  close(): Promise<void>;
}

const maxCloseTime = 3000;

export function openTelemetry(
  { traces, metrics }: TelemetrySettings,
  log: Log,
  database: DatabaseSystem,
): Telemetry {
  logFailures(log);
  const named = resourceFromAttributes({ 'service.name': 'sallyport', 'service.version': version });
  const resource = named.merge(detectResources({ detectors: [envDetector] }));
  const tracing =
    traces &&
    new TracerProvider({
      resource,
      sampler: samplerOf(traces),
      spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter() })],
    });
  let metering: MeterProvider | undefined;
  return {
    tracer: tracing && requestTracer(tracing, database),
    exportMetrics: (families) => {
      if (metrics)
        metering = new MeterProvider({ resource, readers: [metricReader(metrics.interval, families)] });
    },
    close: async () => {
      const closing = Promise.allSettled([tracing?.shutdown(), metering?.shutdown()]);
      await Promise.race([closing, Bun.sleep(maxCloseTime)]);
    },
  };
}

function metricReader(interval: number, families: Observed['families']): PeriodicExportingMetricReader {
  return new PeriodicExportingMetricReader({
    exporter: new OTLPMetricExporter(),
    exportIntervalMillis: interval,
    exportTimeoutMillis: Math.min(interval, 30_000),
    metricProducers: [metricProducer(families)],
  });
}

/** Writes failed exports to the log. The packages report them as JSON text. */
function logFailures(log: Log): void {
  const report = (message: string) => log.warn('could not export traces or metrics', { error: message });
  const ignore = () => {};
  diag.setLogger(
    { error: report, warn: report, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}

function samplerOf({ ratio, parentBased }: SamplerSettings): Sampler {
  const root =
    ratio === 1
      ? new AlwaysOnSampler()
      : ratio === 0
        ? new AlwaysOffSampler()
        : new TraceIdRatioBasedSampler(ratio);
  return parentBased ? new ParentBasedSampler({ root }) : root;
}

const propagator = new W3CTraceContextPropagator();
const headerGetter = {
  get: (headers: Headers, name: string) => headers.get(name) ?? undefined,
  keys: (headers: Headers) => [...headers.keys()],
};

/** Attributes contain the route pattern, but not the path, query or other input that may contain ids and keys. */
function requestTracer(provider: TracerProvider, system: DatabaseSystem): RequestTracer {
  const tracer = provider.getTracer('sallyport', version);
  const current = new AsyncLocalStorage<Context>();
  return {
    request: async ({ method, path, name }, request, requestInfo, handle) => {
      const parent = propagator.extract(ROOT_CONTEXT, request.headers, headerGetter);
      const attributes = {
        'http.request.method': method,
        'http.route': path,
        'sallyport.operation_id': name,
        'sallyport.request_id': requestInfo.requestId,
      };
      const span = tracer.startSpan(`${method} ${path}`, { kind: SpanKind.SERVER, attributes }, parent);
      requestInfo.traceId = span.spanContext().traceId;
      const response = await current.run(trace.setSpan(parent, span), handle);
      span.setAttribute('http.response.status_code', response.status);
      if (response.status >= 500) fail(span, requestInfo.failure);
      span.end();
      return response;
    },
    database: (operation, seconds, error) => {
      const parent = current.getStore();
      if (!parent || !trace.getSpan(parent)?.isRecording()) return;
      const end = performance.timeOrigin + performance.now();
      const attributes = { 'db.system.name': system, 'db.operation.name': operation };
      const options = { kind: SpanKind.CLIENT, startTime: end - seconds * 1000, attributes };
      const span = tracer.startSpan(`database ${operation}`, options, parent);
      if (error !== undefined && !isAnswer(error)) fail(span, error);
      span.end(end);
    },
  };
}

/** Whether a handler has thrown the error inside of a transaction, to answer with a status below 500. */
function isAnswer(error: unknown): boolean {
  return error instanceof Failure && problem(error.code).status < 500;
}

/** Marks a span as failed. Messages of errors can contain values, so the span has only codes and names. */
function fail(span: Span, error: unknown): void {
  span.setAttribute('error.type', causeOf(error)).setStatus({ code: SpanStatusCode.ERROR });
}

/**
 * The code of the innermost error, such as SQLITE_FULL or ECONNREFUSED. For an error of the PostgreSQL server, `errno`
 * has its code, such as 53100. Without a code, the name of the error.
 */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  const { cause, code, name, errno } = error as Error & { code?: unknown; errno?: unknown };
  if (cause instanceof Error) return causeOf(cause);
  const known = [errno, code].find((value) => typeof value === 'string' && value !== '');
  return String(known ?? name);
}

function metricProducer(families: Observed['families']): MetricProducer {
  const start = toHrTime(performance.timeOrigin);
  return {
    collect: async () => {
      const times = { startTime: start, endTime: toHrTime(performance.timeOrigin + performance.now()) };
      const metrics = families.map((family) => metricData(family, times));
      const scopeMetrics = [{ scope: { name: 'sallyport', version }, metrics }];
      return { resourceMetrics: { resource: emptyResource(), scopeMetrics }, errors: [] };
    },
  };
}

function toHrTime(milliseconds: number): HrTime {
  const seconds = Math.floor(milliseconds / 1000);
  return [seconds, Math.round((milliseconds - seconds * 1000) * 1e6)];
}

type Times = { readonly startTime: HrTime; readonly endTime: HrTime };

function metricData(family: Family, times: Times): MetricData {
  const { name, help } = family;
  const common = {
    descriptor: { name, description: help, unit: unitOf(name), valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  };
  if (family.type === 'histogram') {
    const dataPoints = family
      .series()
      .map((one) => ({ ...times, attributes: one.labels, value: histogramOf(one) }));
    return { ...common, dataPointType: DataPointType.HISTOGRAM, dataPoints };
  }
  const dataPoints = family.series().map(({ labels, value }) => ({ ...times, attributes: labels, value }));
  return family.type === 'counter'
    ? { ...common, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }
    : { ...common, dataPointType: DataPointType.GAUGE, dataPoints };
}

function histogramOf({ counts, sum }: HistogramSeries) {
  const buckets = { boundaries: bounds, counts: [...counts] };
  return { buckets, sum, count: counts.reduce((total, count) => total + count, 0) };
}

/** The unit in the notation of UCUM, as OpenTelemetry requires. */
function unitOf(name: string): string {
  if (/_seconds(_total)?$/.test(name)) return 's';
  return name.endsWith('_bytes') ? 'By' : '';
}
