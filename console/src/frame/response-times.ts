/** Response times of the API as this tab sees them: from sending a request to the first byte of the response. */
export interface ResponseTimeSummary {
  readonly count: number;
  /** In milliseconds, like `slow`. */
  readonly median: number;
  /** The 95th percentile. */
  readonly slow: number;
}

/** Only this many of the latest requests count. */
const maxTimes = 200;

export class ResponseTimes {
  readonly #times: number[] = [];

  add(milliseconds: number): void {
    this.#times.push(milliseconds);
    if (this.#times.length > maxTimes) this.#times.shift();
  }

  /** Undefined before the first response. */
  summary(): ResponseTimeSummary | undefined {
    const sorted = this.#times.toSorted((a, b) => a - b);
    const at = (share: number) => sorted[Math.ceil(share * sorted.length) - 1];
    const [median, slow] = [at(0.5), at(0.95)];
    if (median === undefined || slow === undefined) return undefined;
    return { count: sorted.length, median, slow };
  }
}

/** Starts to measure. Leaves out the time that a request waits in the browser for a connection. */
export function measureResponseTimes(): ResponseTimes {
  const times = new ResponseTimes();
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries() as PerformanceResourceTiming[])
      if (entry.initiatorType === 'fetch' && entry.responseStart > 0)
        times.add(entry.responseStart - entry.requestStart);
  });
  observer.observe({ type: 'resource' });
  return times;
}
