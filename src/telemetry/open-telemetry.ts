/**
 * Exports traces and metrics with the packages of OpenTelemetry. start-telemetry.ts imports this file only if traces or
 * metrics are on, because loading the packages takes time and memory.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Context,
  DiagLogLevel,
  diag,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
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
import type { Log } from './log.ts';
import type { Observed, RequestTracer } from './observe.ts';
import { metricProducer } from './otlp-metrics.ts';
import type { SamplerSettings, TelemetrySettings } from './settings.ts';

export interface Telemetry {
  /** Undefined if traces are off. */
  readonly tracer: RequestTracer | undefined;
  /** Exports metrics periodically, if they are on. `collect` reads their values. */
  exportMetrics(collect: Observed['collect']): void;
  /** Exports the remaining spans and metrics. Takes at most three seconds. */
  close(): Promise<void>;
}

const maxCloseTime = 3000;

export function openTelemetry({ traces, metrics }: TelemetrySettings, log: Log): Telemetry {
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
    tracer: tracing && requestTracer(tracing),
    exportMetrics: (collect) => {
      if (metrics)
        metering = new MeterProvider({ resource, readers: [metricReader(metrics.interval, collect)] });
    },
    close: async () => {
      const closing = Promise.allSettled([tracing?.shutdown(), metering?.shutdown()]);
      await Promise.race([closing, Bun.sleep(maxCloseTime)]);
    },
  };
}

function metricReader(interval: number, collect: Observed['collect']): PeriodicExportingMetricReader {
  return new PeriodicExportingMetricReader({
    exporter: new OTLPMetricExporter(),
    exportIntervalMillis: interval,
    exportTimeoutMillis: Math.min(interval, 30_000),
    metricProducers: [metricProducer(collect)],
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
function requestTracer(provider: TracerProvider): RequestTracer {
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
      if (response.status >= 500)
        span.setAttribute('error.type', String(response.status)).setStatus({ code: SpanStatusCode.ERROR });
      span.end();
      return response;
    },
    database: (operation, seconds) => {
      const parent = current.getStore();
      if (!parent || !trace.getSpan(parent)?.isRecording()) return;
      const end = performance.timeOrigin + performance.now();
      const options = { kind: SpanKind.CLIENT, startTime: end - seconds * 1000 };
      tracer.startSpan(`database ${operation}`, options, parent).end(end);
    },
  };
}
