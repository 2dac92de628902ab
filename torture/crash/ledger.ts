/** Callers that remember every answer they got, and can tell afterwards whether it still holds. */
import { Client } from '../client.ts';
import { each } from '../clients.ts';
import type { Random } from '../random.ts';
import type { Secrets } from '../secrets.ts';
import { type Claim, Story } from './story.ts';

/** How long what got no answer is sent again, in milliseconds. */
const patience = 60_000;

export class Ledger {
  readonly #management: string;
  readonly #secrets: Secrets;
  readonly #random: Random;
  readonly #stories: Story[] = [];
  #unchecked: Story[] = [];
  #open: Story[] = [];
  /** Changes that were answered with a success. */
  answered = 0;
  /** Changes that got no answer, or one that promises nothing. */
  unanswered = 0;
  #waiting: { readonly count: number; readonly resolve: () => void } | undefined;
  /** Answers that nobody should get. */
  readonly wrong: string[] = [];

  constructor(management: string, secrets: Secrets, random: Random) {
    this.#management = management;
    this.#secrets = secrets;
    this.#random = random;
  }

  /** Resolves when so many more changes were answered with a success. */
  async more(changes: number): Promise<void> {
    if (changes === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting = { count: this.answered + changes, resolve };
    await promise;
  }

  /** Writes from so many callers at once until it is told to stop; a caller without an answer pauses. */
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

  /** Sends again what got no answer, under the same name. It must happen now, and not twice. */
  async settle(url: string): Promise<void> {
    const client = new Client(url);
    const until = performance.now() + patience;
    await each(this.#open.length, 8, async (index) => {
      const story = this.#open[index] as Story;
      while (!(await this.#advance(client, story))) {
        if (performance.now() > until)
          throw new Error(`what got no answer cannot be sent again: ${this.wrong.at(-1)}`);
        await Bun.sleep(5);
      }
    });
    this.#open = this.#open.filter((story) => story.pending);
    client.close();
  }

  /**
   * What was promised and is not so: of everything, of what was written since this was last asked, or of what
   * nothing more is written about.
   */
  async broken(url: string, which: 'all' | 'new' | 'certain'): Promise<string[]> {
    const over = this.#stories.filter((story) => !story.pending);
    const stories = { all: this.#stories, new: this.#unchecked, certain: over }[which];
    this.#unchecked = [...this.#open];
    const client = new Client(url);
    const claims = stories.flatMap((story) => story.claims());
    const broken: string[] = [];
    await each(claims.length, 16, async (index) => {
      const complaint = await check(client, claims[index] as Claim);
      if (complaint) broken.push(complaint);
    });
    client.close();
    return broken;
  }

  #begin(): Story {
    const ending = this.#random.one(['stays', 'new key', 'goes'] as const);
    const story = new Story(`story-${this.#stories.length}`, this.#management, this.#secrets, ending);
    this.#stories.push(story);
    this.#unchecked.push(story);
    return story;
  }

  async #advance(client: Client, story: Story): Promise<boolean> {
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
        this.wrong.push(`${method} ${path} was answered with ${status}: ${text}`);
    } catch {}
    story.inDoubt = true;
    this.unanswered++;
    return false;
  }
}

async function check(client: Client, claim: Claim): Promise<string | undefined> {
  const { method, path, key, status: expected, shown, says } = claim;
  const { status, text } = await client.call(method, path, { key });
  if (status !== expected) return `${says} got ${status} instead of ${expected}: ${text}`;
  if (shown === undefined || JSON.parse(text).data === shown) return undefined;
  return `${says} shows ${JSON.parse(text).data} instead of ${shown}`;
}
