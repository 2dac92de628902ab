import type { OpenOptions } from '../store/open.ts';
import type { Log } from './log.ts';
import type { Observed, RequestTracer } from './observe.ts';
import type { TelemetrySettings } from './settings.ts';

/** Loads the packages of OpenTelemetry only if traces or metrics are on. Otherwise returns undefined. */
export async function startTelemetry(settings: TelemetrySettings, log: Log, databaseUrl: string) {
  if (!settings.traces && !settings.metrics) return undefined;
  const { openTelemetry } = await import('./open-telemetry.ts');
  return openTelemetry(settings, log, databaseUrl.startsWith('sqlite:') ? 'sqlite' : 'postgresql');
}

/** Returns a function that receives the duration of each database call, for metrics and traces. */
export function timingFor(
  metrics: Observed | undefined,
  tracer: RequestTracer | undefined,
): OpenOptions['timing'] {
  if (!tracer) return metrics?.database;
  return (operation, seconds, error) => {
    metrics?.database(operation, seconds);
    tracer.database(operation, seconds, error);
  };
}
