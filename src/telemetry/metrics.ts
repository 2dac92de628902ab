/**
 * Counters, gauges and histograms, and their Prometheus text format. Label values, such as a route name or a sink name,
 * come from the code or the configuration, never from a request; only destinations have their ids, up to a number. The
 * number of series is therefore bounded, and metrics contain no keys.
 */
import { durationLimits } from '../domain/request-counts.ts';

export type Labels = Readonly<Record<string, string>>;

export interface NumberSeries {
  readonly labels: Labels;
  readonly value: number;
}

export interface HistogramSeries {
  readonly labels: Labels;
  /** Observations per bucket. The last bucket is for values above all bounds. */
  readonly counts: readonly number[];
  readonly sum: number;
}

interface FamilyHead {
  readonly name: string;
  readonly help: string;
}

/** All series with one name. */
export type Family =
  | (FamilyHead & { readonly type: 'counter' | 'gauge'; readonly series: () => NumberSeries[] })
  | (FamilyHead & { readonly type: 'histogram'; readonly series: () => HistogramSeries[] });

export interface Counter {
  add(labels: Labels, by?: number): void;
}

export interface Histogram {
  observe(labels: Labels, seconds: number): void;
}

type Read = () => Iterable<readonly [Labels, number]>;

/** Upper bounds of the histogram buckets, in seconds. */
export const bounds = durationLimits.map((milliseconds) => milliseconds / 1000);

export class Registry {
  readonly families: Family[] = [];

  /** The series in `initial` exist from the start, so that `rate` sees their first increase. */
  counter(name: string, help: string, initial: readonly Labels[]): Counter {
    const series = new Map<string, { labels: Labels; value: number }>();
    const add = (labels: Labels, by = 1) => {
      const key = formatLabels(labels);
      const one = series.get(key);
      if (one) one.value += by;
      else series.set(key, { labels, value: by });
    };
    for (const labels of initial) add(labels, 0);
    this.families.push({ name, help, type: 'counter', series: () => [...series.values()] });
    return { add };
  }

  histogram(name: string, help: string): Histogram {
    const series = new Map<string, { labels: Labels; counts: number[]; sum: number }>();
    this.families.push({ name, help, type: 'histogram', series: () => [...series.values()] });
    return {
      observe: (labels, seconds) => {
        const key = formatLabels(labels);
        const one = series.get(key) ?? { labels, counts: new Array(bounds.length + 1).fill(0), sum: 0 };
        const bucket = bounds.findIndex((bound) => seconds <= bound);
        one.counts[bucket < 0 ? bounds.length : bucket]! += 1;
        one.sum += seconds;
        series.set(key, one);
      },
    };
  }

  /** `read` is called on every scrape. */
  gauge(name: string, help: string, read: Read): void {
    this.families.push({ name, help, type: 'gauge', series: () => toSeries(read) });
  }

  /** A counter whose value is read on every scrape. */
  externalCounter(name: string, help: string, read: Read): void {
    this.families.push({ name, help, type: 'counter', series: () => toSeries(read) });
  }

  text(): string {
    return this.families
      .flatMap((family) => {
        const { name, help, type } = family;
        const lines =
          family.type === 'histogram'
            ? family.series().flatMap((one) => bucketLines(name, one))
            : family.series().map(({ labels, value }) => `${name}${braced(formatLabels(labels))} ${value}`);
        return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines];
      })
      .concat('')
      .join('\n');
  }
}

function toSeries(read: Read): NumberSeries[] {
  return Array.from(read(), ([labels, value]) => ({ labels, value }));
}

function formatLabels(labels: Labels): string {
  const parts = Object.entries(labels).map(([name, value]) => `${name}="${value.replace(/[\\"\n]/g, '_')}"`);
  return parts.join(',');
}

function braced(labels: string): string {
  return labels === '' ? '' : `{${labels}}`;
}

function bucketLines(name: string, { labels: given, counts, sum }: HistogramSeries): string[] {
  const labels = formatLabels(given);
  const comma = labels === '' ? '' : ',';
  let total = 0;
  const buckets = counts.map((count, index) => {
    total += count;
    return `${name}_bucket{${labels}${comma}le="${bounds[index] ?? '+Inf'}"} ${total}`;
  });
  return [...buckets, `${name}_sum${braced(labels)} ${sum}`, `${name}_count${braced(labels)} ${total}`];
}
