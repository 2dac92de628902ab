import { builtIn, hasTrait } from '../../src/domain/permission.ts';
import { routes } from '../../src/http/routes.ts';
import { type Body, type Clients, clientsOf, forEachConcurrently, oneNode } from '../fleet-clients.ts';
import type { Random } from '../random.ts';
import { allDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const escalation: Row = {
  name: 'escalation',
  requirement:
    '50,000 attempts, half on each database, to gain permissions by creating and updating applications, by regenerating and adding keys, and by authorizing sessions: no key gets a management permission that the first key did not hold',
  databases: allDatabases,
  run,
};

const stepsOfEach = 25;
const management = builtIn.filter((name) => hasTrait(name, 'management'));
const ofSessions = management.filter((name) => hasTrait(name, 'browser'));
const free = ['token:read', 'mine:x'];
/** Holders of these permissions may grant a session anything. */
const freely = ['session:authorize', 'application:create'];
const views = ['redact', 'mask', 'reveal'] as const;

async function run(context: Context): Promise<Outcome> {
  const sequences = context.sized(1000, 12);
  const clients = clientsOf(context, await oneNode(context));
  const failures: string[] = [];
  const tally = { tried: 0, succeeded: 0, sessions: 0, unavailable: 0 };
  await forEachConcurrently(sequences, 20, async (index) => {
    const attack = new Attack(clients, context.random, index, tally);
    await attack.begin();
    for (let step = 0; step < stepsOfEach; step++) await attack.step();
    await attack.lookBack();
    failures.push(...attack.gains);
  });
  return {
    figures: {
      attempts: tally.tried,
      succeeded: tally.succeeded,
      'sessions checked': tally.sessions,
      'retried (503)': tally.unavailable,
      gains: failures.length,
    },
    failures: failures.slice(0, 5),
  };
}

interface Tally {
  tried: number;
  succeeded: number;
  sessions: number;
  unavailable: number;
}

interface Held {
  readonly id: string;
  readonly key: string;
}

/** An attacker with one key who tries to gain more access. */
class Attack {
  readonly gains: string[] = [];
  readonly #clients: Clients;
  readonly #random: Random;
  readonly #node: number;
  readonly #tally: Tally;
  #owner = '';
  #web = '';
  #token = '';
  #start: readonly string[] = [];
  /** Applications whose ids the attacker can learn. */
  #targets: string[] = [];
  #held: Held[] = [];
  #told = '';

  constructor(clients: Clients, random: Random, node: number, tally: Tally) {
    this.#clients = clients;
    this.#random = random;
    this.#node = node;
    this.#tally = tally;
  }

  async begin(): Promise<void> {
    const { application, must, fleet } = this.#clients;
    this.#owner = (await fleet.tenant()).key;
    this.#start = this.#random.some(management, 1);
    const rules = [{ priority: 1, container: '/mine/', transform: 'mask', permissions: ['token:read'] }];
    const first = await application(this.#owner, { permissions: [...this.#start, 'mine:x'], rules });
    const strong = await application(this.#owner, { permissions: management });
    const web = await application(this.#owner, { type: 'public' });
    const body = { container: '/mine/', data: 'seen', mask: 'masked' };
    this.#token = (await must(0, 'POST', '/tokens', { key: this.#owner, body })).id;
    this.#web = (await application(this.#owner, { type: 'public' })).key;
    this.#held = [first];
    this.#targets = [first.id, strong.id, web.id];
  }

  async step(): Promise<void> {
    this.#tally.tried++;
    const { key } = this.#random.one(this.#held);
    const target = this.#random.one(this.#targets);
    const attempts = [
      this.#create,
      this.#update,
      this.#update,
      this.#regenerate,
      this.#addKey,
      this.#authorize,
    ];
    await this.#random.one(attempts).call(this, key, target);
  }

  #grants(): object {
    const names = this.#random.some([...management, ...free], 1);
    if (this.#random.chance(0.6)) return { permissions: names };
    return { rules: [{ priority: 1, container: '/mine/', transform: 'reveal', permissions: names }] };
  }

  /** Sends a request of the attacker. Returns undefined if it does not succeed. */
  async #try(key: string, method: string, path: string, body?: object): Promise<Body | undefined> {
    const { status, text } = await this.#clients.call(this.#node, method, path, { key, body });
    this.#told = `${method} ${path} ${JSON.stringify(body)} → ${status}`;
    if (status === 503) this.#tally.unavailable++;
    else if (status >= 500) this.gains.push(`an attempt failed: ${this.#told} ${text}`);
    if (status >= 300) return undefined;
    this.#tally.succeeded++;
    return text === '' ? {} : JSON.parse(text);
  }

  async #create(key: string): Promise<void> {
    const type = this.#random.one(['private', 'management']);
    const made = await this.#try(key, 'POST', '/applications', { name: 'x', type, ...this.#grants() });
    if (made) this.#keep(made);
  }

  async #update(key: string, target: string): Promise<void> {
    const changed = await this.#try(key, 'PUT', `/applications/${target}`, { name: 'x', ...this.#grants() });
    if (changed && this.#held.some(({ id }) => id === target)) this.#check(changed);
  }

  async #regenerate(key: string, target: string): Promise<void> {
    const made = await this.#try(key, 'POST', `/applications/${target}/regenerate`);
    if (made) this.#keep(made);
  }

  async #addKey(key: string, target: string): Promise<void> {
    const made = await this.#try(key, 'POST', `/applications/${target}/keys`);
    if (made) this.#held.push({ id: target, key: made.key });
  }

  #keep(made: Body): void {
    this.#held.push(made);
    this.#targets.push(made.id);
    this.#check(made);
  }

  /** Records a gain if the application has a management permission that the attacker did not have at the start. */
  #check({ permissions, rules, type }: Body): void {
    if (type === 'public') return;
    const names = [permissions, ...rules.map((rule: Body) => rule.permissions)].flat() as string[];
    const more = names.filter((name) => management.includes(name as never) && !this.#start.includes(name));
    if (more.length > 0) this.gains.push(`from ${this.#start} to ${more} by ${this.#told}`);
  }

  /**
   * The session must not have more permissions than its authorizer may grant. If it has a ceiling, it must not have
   * more than the authorizer holds.
   */
  async #authorize(key: string): Promise<void> {
    const { must, call } = this.#clients;
    const { session_key, nonce } = await must(this.#node, 'POST', '/sessions', { key: this.#web });
    const permissions = this.#random.some([...ofSessions, ...free], 1);
    const rules = [
      {
        priority: 1,
        transform: 'reveal',
        permissions: ['token:read'],
        conditions: [{ attribute: 'container', operator: 'starts_with', value: '/' }],
      },
    ];
    const grants = this.#random.chance(0.5) ? { permissions } : { permissions, rules };
    if (!(await this.#try(key, 'POST', '/sessions/authorize', { nonce, ...grants }))) return;
    this.#tally.sessions++;
    const mayHandOut = this.#start.some((name) => freely.includes(name));
    for (const name of ofSessions.filter((each) => permissions.includes(each))) {
      const door = routes.find((route) => route.kind !== 'open' && route.permission === name);
      if (!door) continue;
      const path = door.path.replace(/:\w+/g, crypto.randomUUID());
      const { status } = await call(this.#node + 1, door.method, path, { key: session_key });
      // The permission is checked before input and id.
      if ((status < 300 || status === 400 || status === 404) && !mayHandOut && !this.#start.includes(name)) {
        this.gains.push(`a session got ${name} from ${this.#start}`);
      }
    }
    if (mayHandOut) return;
    const [mine, its] = [await this.#seenBy(key), await this.#seenBy(session_key)];
    if (its > mine)
      this.gains.push(`a Session sees ${views[its]}, its authorizer ${views[mine] ?? 'nothing'}`);
  }

  /** How much of the token is visible: an index in `views`, or -1 if the token cannot be read. */
  async #seenBy(key: string): Promise<number> {
    const { status, text } = await this.#clients.call(this.#node, 'GET', `/tokens/${this.#token}`, { key });
    if (status >= 300) return -1;
    return ['absent', 'masked', 'seen'].indexOf(JSON.parse(text).data ?? 'absent');
  }

  /** Reads the final grants of all keys with a management key. */
  async lookBack(): Promise<void> {
    for (const id of new Set(this.#held.map((held) => held.id))) {
      this.#told = 'all of it together';
      this.#check(await this.#clients.must(this.#node, 'GET', `/applications/${id}`, { key: this.#owner }));
    }
  }
}
