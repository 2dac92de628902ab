/**
 * Reads the environment variables of OpenTelemetry:
 * https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
 */
import { ConfigError } from '../config/settings.ts';

type Env = Readonly<Record<string, string | undefined>>;

export interface TelemetrySettings {
  readonly traces: SamplerSettings | undefined;
  readonly metrics: { /** Milliseconds. */ readonly interval: number } | undefined;
}

export interface SamplerSettings {
  /** Share of the traces to record, from 0 to 1. */
  readonly ratio: number;
  /** Whether the `traceparent` of a caller decides instead of `ratio`. */
  readonly parentBased: boolean;
}

/** Does not read the certificate, header, timeout and compression variables: the exporters do. */
export function readTelemetrySettings(env: Env): TelemetrySettings {
  const isDisabled = env.OTEL_SDK_DISABLED?.toLowerCase() === 'true';
  const isOn = (signal: 'TRACES' | 'METRICS') =>
    !isDisabled &&
    Boolean(env.OTEL_EXPORTER_OTLP_ENDPOINT || env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`]) &&
    exportsOtlp(env, signal);
  return {
    traces: isOn('TRACES') ? readSampler(env) : undefined,
    metrics: isOn('METRICS') ? { interval: readInterval(env) } : undefined,
  };
}

/** Throws `ConfigError` if the variables name an exporter or a protocol that is not supported. */
function exportsOtlp(env: Env, signal: 'TRACES' | 'METRICS'): boolean {
  const exporter = `OTEL_${signal}_EXPORTER`;
  if (env[exporter] === 'none') return false;
  if (env[exporter] && env[exporter] !== 'otlp')
    throw new ConfigError(`${exporter} must be otlp or none, not "${env[exporter]}"`);
  for (const name of ['OTEL_EXPORTER_OTLP_PROTOCOL', `OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`])
    if (env[name] && env[name] !== 'http/json')
      throw new ConfigError(
        `${name} must be http/json, not "${env[name]}"`,
        'collectors accept http/json on the same port as http/protobuf, 4318',
      );
  return true;
}

function readSampler(env: Env): SamplerSettings {
  const name = env.OTEL_TRACES_SAMPLER || 'parentbased_always_on';
  const [, parentBased, kind] = /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(name) ?? [];
  if (!kind)
    throw new ConfigError(
      `OTEL_TRACES_SAMPLER must be always_on, always_off, traceidratio, or one of them after parentbased_, not "${name}"`,
    );
  const ratio = { always_on: 1, always_off: 0 }[kind] ?? readRatio(env.OTEL_TRACES_SAMPLER_ARG);
  return { ratio, parentBased: parentBased !== undefined };
}

function readRatio(text: string | undefined): number {
  const ratio = text ? Number(text) : 1;
  if (ratio >= 0 && ratio <= 1) return ratio;
  throw new ConfigError(`OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1, not "${text}"`);
}

/** The longest time of a timer, in milliseconds. One that is set to more ends immediately. */
const longestTimer = 2_147_483_647;

function readInterval({ OTEL_METRIC_EXPORT_INTERVAL: text }: Env): number {
  const interval = text ? Number(text) : 60_000;
  if (Number.isInteger(interval) && interval >= 1000 && interval <= longestTimer) return interval;
  throw new ConfigError(
    `OTEL_METRIC_EXPORT_INTERVAL must be a number of milliseconds from 1000 to ${longestTimer}, not "${text}"`,
  );
}
