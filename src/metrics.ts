/**
 * Counters, gauges and histograms in the Prometheus text format. Label values come from the code or the configuration,
 * such as a route name, a status or the name of a sink, and never from a request. No id or key can leak, and the number
 * of series is bounded.
 */
type Labels = Readonly<Record<string, string>>;

interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly lines: () => string[];
}

export interface Counter {
  add(labels: Labels, by?: number): void;
}

export interface Histogram {
  observe(labels: Labels, seconds: number): void;
}

/** Upper bounds of the histogram buckets, in seconds. */
const bounds = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export class Registry {
  readonly #families: Family[] = [];

  counter(name: string, help: string): Counter {
    const values = new Map<string, number>();
    this.#families.push({ name, help, type: 'counter', lines: () => valueLines(name, values) });
    return {
      add: (labels, by = 1) => {
        const key = formatLabels(labels);
        values.set(key, (values.get(key) ?? 0) + by);
      },
    };
  }

  histogram(name: string, help: string): Histogram {
    const series = new Map<string, { counts: number[]; sum: number }>();
    this.#families.push({
      name,
      help,
      type: 'histogram',
      lines: () => [...series].flatMap((one) => bucketLines(name, ...one)),
    });
    return {
      observe: (labels, seconds) => {
        const key = formatLabels(labels);
        const values = series.get(key) ?? { counts: new Array(bounds.length + 1).fill(0), sum: 0 };
        const bucket = bounds.findIndex((bound) => seconds <= bound);
        values.counts[bucket < 0 ? bounds.length : bucket]! += 1;
        values.sum += seconds;
        series.set(key, values);
      },
    };
  }

  /** `read` is called on every scrape. A name that ends in `_total` is a counter, as Prometheus expects. */
  gauge(name: string, help: string, read: () => Iterable<readonly [Labels, number]>): void {
    const lines = () =>
      valueLines(name, new Map(Array.from(read(), ([labels, value]) => [formatLabels(labels), value])));
    this.#families.push({ name, help, type: name.endsWith('_total') ? 'counter' : 'gauge', lines });
  }

  text(): string {
    return this.#families
      .flatMap(({ name, help, type, lines }) => [
        `# HELP ${name} ${help}`,
        `# TYPE ${name} ${type}`,
        ...lines(),
      ])
      .concat('')
      .join('\n');
  }
}

function formatLabels(labels: Labels): string {
  const parts = Object.entries(labels).map(([name, value]) => `${name}="${value.replace(/[\\"\n]/g, '_')}"`);
  return parts.join(',');
}

function braced(labels: string): string {
  return labels === '' ? '' : `{${labels}}`;
}

function valueLines(name: string, values: ReadonlyMap<string, number>): string[] {
  return [...values].map(([labels, value]) => `${name}${braced(labels)} ${value}`);
}

function bucketLines(
  name: string,
  labels: string,
  { counts, sum }: { counts: number[]; sum: number },
): string[] {
  const comma = labels === '' ? '' : ',';
  let total = 0;
  const buckets = counts.map((count, index) => {
    total += count;
    return `${name}_bucket{${labels}${comma}le="${bounds[index] ?? '+Inf'}"} ${total}`;
  });
  return [...buckets, `${name}_sum${braced(labels)} ${sum}`, `${name}_count${braced(labels)} ${total}`];
}
