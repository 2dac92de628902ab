/** Passes the metrics of the registry to OpenTelemetry, as cumulative values since the start of the process. */
import { type HrTime, ValueType } from '@opentelemetry/api';
import { emptyResource } from '@opentelemetry/resources';
import {
  AggregationTemporality,
  DataPointType,
  type MetricData,
  type MetricProducer,
} from '@opentelemetry/sdk-metrics';
import { version } from '../config/version.ts';
import { bounds, type Family, type HistogramSeries } from './metrics.ts';
import type { Observed } from './observe.ts';

export function metricProducer(collect: Observed['collect']): MetricProducer {
  const start = toHrTime(performance.timeOrigin);
  return {
    collect: async () => {
      const families = await collect();
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
