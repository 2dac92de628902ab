/** Callers that record every acknowledged change and verify later that it persists. */
import { Client } from '../client.ts';
import { forEachConcurrently, retry503 } from '../fleet-clients.ts';
import { NotFinished } from '../not-finished.ts';
import type { Random } from '../random.ts';
import { maxAttempts } from '../retry.ts';
import type { Context } from '../row.ts';
import type { Secrets } from '../secrets.ts';
import { firstKey } from './node.ts';
import { type ExpectedResponse, Scenario } from './scenario.ts';

export class Ledger {
  readonly #management: string;
  readonly #secrets: Secrets;
  readonly #random: Random;
  readonly #name: string;
  readonly #stories: Scenario[] = [];
  #unchecked: Scenario[] = [];
  #open: Scenario[] = [];
  /** Acknowledged changes. */
  answered = 0;
  /** Changes whose outcome is unknown: without a response, or with one that is not a success. */
  unanswered = 0;
  #waiting: { readonly count: number; readonly resolve: () => void } | undefined;
  /** Unexpected responses. */
  readonly wrong: string[] = [];

  /** Ledgers on one database need different names. */
  constructor(management: string, secrets: Secrets, random: Random, name = 'story') {
    this.#management = management;
    this.#secrets = secrets;
    this.#random = random;
    this.#name = name;
  }

  /** Resolves after this many more acknowledged changes. */
  async more(changes: number): Promise<void> {
    if (changes === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting = { count: this.answered + changes, resolve };
    await promise;
  }

  /** Writes from this many concurrent callers until stopped. A caller without a response pauses. */
  async write(url: string, lanes: number, stopped: () => boolean): Promise<void> {
    const client = new Client(url);
    const lane = async () => {
      while (!stopped()) {
        const story = this.#open.pop() ?? this.#begin();
        const went = await this.#advance(client, story);
        if (story.pending) this.#open.push(story);
        if (!went) await Bun.sleep(5);
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    client.close();
  }

  /** Retries unanswered changes with the same idempotency key. Each must happen exactly once. */
  async settle(url: string): Promise<void> {
    const client = new Client(url);
    await forEachConcurrently(this.#open.length, 8, async (index) => {
      const story = this.#open[index] as Scenario;
      for (let attempt = 1; !(await this.#advance(client, story)); attempt++) {
        if (this.wrong.length > 0)
          throw new Error(`retrying an unanswered change failed: ${this.wrong.at(-1)}`);
        if (attempt === maxAttempts)
          throw new NotFinished(`an unanswered change was retried ${maxAttempts} times`);
        await Bun.sleep(100);
      }
    });
    this.#open = this.#open.filter((story) => story.pending);
    client.close();
  }

  /**
   * Acknowledged changes that are lost. `all`: of all scenarios. `new`: of scenarios that were written to since the
   * last check. `certain`: of finished scenarios.
   */
  async broken(url: string, which: 'all' | 'new' | 'certain'): Promise<string[]> {
    const over = this.#stories.filter((story) => !story.pending);
    const stories = { all: this.#stories, new: this.#unchecked, certain: over }[which];
    this.#unchecked = [...this.#open];
    const client = new Client(url);
    const claims = stories.flatMap((story) => story.claims());
    const broken: string[] = [];
    await forEachConcurrently(claims.length, 16, async (index) => {
      const complaint = await check(client, claims[index] as ExpectedResponse);
      if (complaint) broken.push(complaint);
    });
    client.close();
    return broken;
  }

  #begin(): Scenario {
    const ending = this.#random.one(['stays', 'new key', 'goes'] as const);
    const story = new Scenario(
      `${this.#name}-${this.#stories.length}`,
      this.#management,
      this.#secrets,
      ending,
    );
    this.#stories.push(story);
    this.#unchecked.push(story);
    return story;
  }

  async #advance(client: Client, story: Scenario): Promise<boolean> {
    const { method, path, key, body, name } = story.pending ?? {};
    if (method === undefined || path === undefined) return true;
    const headers = name === undefined ? [] : [`Idempotency-Key: ${name}`];
    try {
      const { status, text } = await client.call(method, path, { key, body, headers });
      if (method === 'DELETE' && status === 404 && story.inDoubt) {
        story.accept(undefined);
        return true;
      }
      if (status < 300) {
        story.accept(text === '' ? undefined : JSON.parse(text));
        this.answered++;
        if (this.answered === this.#waiting?.count) this.#waiting.resolve();
        return true;
      }
      if (status !== 503 && !text.includes('"idempotency_running"'))
        this.wrong.push(`${method} ${path} returned ${status}: ${text}`);
    } catch {}
    story.inDoubt = true;
    this.unanswered++;
    return false;
  }
}

/** With the management key of the first tenant. */
export function ledgerOf(context: Context): Ledger {
  return new Ledger(firstKey(context), context.secrets, context.random);
}

/** Reads an expected state. A read that gets 503 is repeated, because it says nothing about the state. */
async function check(client: Client, claim: ExpectedResponse): Promise<string | undefined> {
  const { method, path, key, status: expected, shown, says } = claim;
  const { status, text } = await retry503(() => client.call(method, path, { key }));
  if (status !== expected) return `${says} returned ${status} instead of ${expected}: ${text}`;
  if (shown === undefined || JSON.parse(text).data === shown) return undefined;
  return `${says} shows ${JSON.parse(text).data} instead of ${shown}`;
}
