/**
 * Figures in Prometheus' text form. Every label value comes from the code (a route's name, a status, an
 * outcome), never from a request, so that no id or key can show and the number of series is bounded.
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

/** From a quarter of a millisecond to ten seconds. */
const bounds = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export class Registry {
  readonly #families: Family[] = [];

  counter(name: string, help: string): Counter {
    const values = new Map<string, number>();
    this.#families.push({ name, help, type: 'counter', lines: () => plainLines(name, values) });
    return {
      add: (labels, by = 1) => {
        const key = written(labels);
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
        const key = written(labels);
        const known = series.get(key) ?? { counts: new Array(bounds.length + 1).fill(0), sum: 0 };
        const bucket = bounds.findIndex((bound) => seconds <= bound);
        known.counts[bucket < 0 ? bounds.length : bucket]! += 1;
        known.sum += seconds;
        series.set(key, known);
      },
    };
  }

  /** Read when it is asked for. */
  gauge(name: string, help: string, read: () => Iterable<readonly [Labels, number]>): void {
    const lines = () =>
      plainLines(name, new Map(Array.from(read(), ([labels, value]) => [written(labels), value])));
    this.#families.push({ name, help, type: 'gauge', lines });
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

function written(labels: Labels): string {
  const parts = Object.entries(labels).map(([name, value]) => `${name}="${value.replace(/[\\"\n]/g, '_')}"`);
  return parts.join(',');
}

function braced(labels: string): string {
  return labels === '' ? '' : `{${labels}}`;
}

function plainLines(name: string, values: ReadonlyMap<string, number>): string[] {
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
