/** Response times of the API as this tab sees them: from sending a request to the headers of the response. */
export interface ResponseTimeSummary {
  readonly count: number;
  /** In milliseconds, like `slow`. */
  readonly median: number;
  /** 95 % of the requests are at least as fast. */
  readonly slow: number;
}

/** Only the last requests count. */
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
