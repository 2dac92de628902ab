/**
 * Keys with random policies move, remask, patch, delete, create and search tokens, with and without a purpose, also through
 * sessions that they authorize and delegations that they issue. A
 * group of keys that one caller controls must not get plaintext that it could not read before.
 */
import type { ClientResponse, RequestOptions } from '../client.ts';
import { type Body, type Clients, clientsOf, forEachConcurrently } from '../fleet-clients.ts';
import { Random } from '../random.ts';
import {
  containers,
  permissionsIn,
  randomGrants,
  randomSessionRules,
  temptingGrants,
  tokenIds,
  tokenPermissions,
} from '../random-rules.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';
import type { Secrets } from '../secrets.ts';

export const noGainByMoves: Row = {
  name: 'token-moves',
  requirement:
    'moves, masks, patches, searches, deletes and re-creations by keys with random rules and purposes, by their sessions and delegations, in 200 tenants, half on each database: no caller reads plaintext that it could not read before',
  databases: bothDatabases,
  run,
};

const masks = [
  null,
  '{{ data.hidden }}',
  '{{ data.hidden | last: 80 }}',
  { shown: '{{ data.shown }}' },
  { shown: '{{ data.hidden | first: 80 }}' },
  ['{{ data.extra }}', '{{ data["hidden"] }}'],
];
/** Headers that state a purpose. */
const stated = ['SVC-PURPOSE: test'];
const phases = 3;
const actionsOfEach = 14;

async function run(context: Context): Promise<Outcome> {
  const scenarios = context.sized(100, 12);
  const clients = clientsOf(context, await context.fleet());
  const tally: Tally = { actions: 0, accepted: 0, moves: 0, unavailable: 0, gains: [] };
  await forEachConcurrently(scenarios, 8, async (index) => {
    const random = new Random(context.seed, `${context.database.name} ${index}`);
    const scenario = new Scenario(clients, random, context.secrets, index, tally);
    await scenario.begin();
    for (let phase = 0; phase < phases; phase++) await scenario.phase();
  });
  const failures = tally.gains.slice(0, 5);
  if (tally.moves === 0) failures.push('no move was accepted');
  return {
    figures: {
      actions: tally.actions,
      accepted: tally.accepted,
      'moves among them': tally.moves,
      'retried (503)': tally.unavailable,
      gains: tally.gains.length,
    },
    failures,
  };
}

interface Tally {
  actions: number;
  accepted: number;
  moves: number;
  unavailable: number;
  readonly gains: string[];
}

/** Keys that one caller controls. */
interface Group {
  readonly name: string;
  /** Either the key of an application and of the sessions under its ceiling, or the key of one session. */
  readonly keys: string[];
  /** The application and what it was granted, if it may authorize sessions under its own ceiling. */
  readonly authorizer?: { readonly id: string; held: string[] };
  /** Secrets that the group wrote itself. */
  readonly own: Set<string>;
}

class Scenario {
  readonly #clients: Clients;
  readonly #random: Random;
  readonly #register: Secrets;
  readonly #index: number;
  readonly #tally: Tally;
  readonly #secrets = new Set<string>();
  /** Log of all actions. */
  readonly #story: { readonly by: string; readonly what: string }[] = [];
  /** Whether the backends' initial rules make an attack through sessions worthwhile. */
  readonly #isTempting: boolean;
  #owner = '';
  #web = '';
  #groups: Group[] = [];

  constructor(clients: Clients, random: Random, register: Secrets, index: number, tally: Tally) {
    this.#clients = clients;
    this.#random = random;
    this.#register = register;
    this.#index = index;
    this.#tally = tally;
    this.#isTempting = index % 2 === 0;
  }

  async begin(): Promise<void> {
    const { application, fleet } = this.#clients;
    this.#owner = (await fleet.tenant()).key;
    for (const id of tokenIds) await this.#fill(id);
    const web = await application(this.#owner, {
      type: 'public',
      ...randomGrants(this.#random, tokenPermissions),
    });
    this.#web = web.key;
    for (const name of ['first backend', 'second backend']) {
      const grants = this.#isTempting ? temptingGrants : randomGrants(this.#random);
      const { id, key } = await application(this.#owner, grants);
      const group = {
        name,
        keys: [key],
        own: new Set<string>(),
        authorizer: { id, held: permissionsIn(grants) },
      };
      this.#groups.push(group);
      this.#tell(name, `has ${JSON.stringify(grants)}`);
      for (let more = 0; more < 2; more++) await this.#authorize(group, key);
    }
    const lent = { name: 'session without a ceiling', keys: [], own: new Set<string>() };
    await this.#authorize(lent, this.#owner);
    this.#groups.push({ name: 'public application', keys: [web.key], own: new Set() }, lent);
  }

  /** Compares what a group can read after its actions with what it could read before. */
  async phase(): Promise<void> {
    await this.#meanwhile();
    const [first, second, ...others] = this.#groups as [Group, Group, ...Group[]];
    const group = this.#isTempting ? first : this.#random.one([first, second, ...others]);
    const before = new Set(this.#secretsIn(await this.#shownTo(group.keys[0] as string)));
    this.#tell(group.name, 'begins');
    for (let action = 0; action < actionsOfEach; action++) {
      this.#gained(group, before, await this.#act(group));
    }
    this.#gained(group, before, await this.#shownTo(...group.keys));
  }

  #gained(group: Group, before: ReadonlySet<string>, text: string): void {
    const gained = this.#secretsIn(text).filter((secret) => !before.has(secret) && !group.own.has(secret));
    if (gained.length === 0) return;
    const story = this.#story.filter(({ by }) => by === group.name || by === 'owner');
    const sentences = story.map(({ by, what }) => `${by} ${what}`);
    this.#tally.gains.push(`${group.name} gained ${gained.length} secrets: ${sentences.join('; ')}`);
    for (const secret of gained) group.own.add(secret);
  }

  /** Between two phases the owner changes rules and re-creates deleted tokens. */
  async #meanwhile(): Promise<void> {
    for (const id of tokenIds) {
      const { status } = await this.#ask(this.#owner, 'GET', `/tokens/${id}`);
      if (status === 404) await this.#fill(id);
    }
    const { name, authorizer } = this.#random.one(this.#groups);
    if (!authorizer || this.#random.chance(0.4)) return;
    const grants = randomGrants(this.#random);
    authorizer.held = permissionsIn(grants);
    const body = { name: 'changed', ...grants };
    await this.#clients.must(this.#index, 'PUT', `/applications/${authorizer.id}`, {
      key: this.#owner,
      body,
    });
    this.#tell(name, `now has ${JSON.stringify(grants)}`);
  }

  async #fill(id: string): Promise<void> {
    const data = { shown: this.#secret(), hidden: this.#secret() };
    const mask = this.#random.chance(0.7) ? { shown: '{{ data.shown }}' } : undefined;
    const body = {
      id,
      container: this.#randomContainer(),
      data: this.#random.chance(0.8) ? data : data.hidden,
      mask,
      search: this.#random.chance(0.5) ? { shown: '{{ data.shown }}' } : undefined,
    };
    if (typeof body.data === 'string') Object.assign(body, { mask: undefined, search: undefined });
    await this.#clients.must(this.#index, 'POST', '/tokens', { key: this.#owner, body });
    this.#tell('owner', `creates ${id} in ${body.container}`);
  }

  /** All responses in which these keys can see token data, with a purpose, as one text. */
  async #shownTo(...keys: string[]): Promise<string> {
    const first = keys[0] as string;
    const probe = { metadata: { probed: String(this.#random.below(1e9)) } };
    const answers = await Promise.all([
      ...keys.map((key) => this.#ask(key, 'GET', '/tokens?size=100', undefined, stated)),
      ...tokenIds.map((id) => this.#ask(first, 'GET', `/tokens/${id}`, undefined, stated)),
      ...tokenIds.map((id) => this.#ask(first, 'PATCH', `/tokens/${id}`, probe, stated)),
    ]);
    return answers.map(({ text }) => text).join('\n');
  }

  async #act(group: Group): Promise<string> {
    this.#tally.actions++;
    const key = this.#random.one(group.keys);
    const path = `/tokens/${this.#random.one(tokenIds)}`;
    const container = this.#randomContainer();
    const kind = this.#random.below(12);
    if (kind === 0 && group.authorizer) {
      await this.#authorize(group, group.keys[0] as string);
      return '';
    }
    if (kind === 1) return this.#try(group, key, 'DELETE', path);
    if (kind === 2) {
      const data = { extra: this.#secret(group), hidden: this.#secret(group) };
      return this.#try(group, key, 'POST', '/tokens', { id: this.#random.one(tokenIds), container, data });
    }
    if (kind === 3) {
      const equals = { shown: this.#random.one([...this.#secrets]) };
      return this.#try(group, key, 'POST', '/tokens/search', { equals });
    }
    if (kind === 4)
      return this.#try(group, key, 'GET', `${path}?transform=${this.#random.one(['mask', 'redact'])}`);
    const mask = this.#random.one(masks);
    const data = { extra: this.#secret(group) };
    const whole = this.#secret(group);
    const patches = [
      { container },
      { container },
      { container },
      { container, data },
      { container, mask },
      { mask },
      { mask, data },
      { search: { shown: '{{ data.hidden }}' } },
      { container: null, data: { shown: null } },
      { data: this.#random.chance(0.2) ? whole : data },
    ];
    return this.#try(group, key, 'PATCH', path, this.#random.one(patches));
  }

  async #try(by: Group, key: string, method: string, path: string, body?: object): Promise<string> {
    const { status, text } = await this.#ask(key, method, path, body);
    if (status < 300) {
      this.#tally.accepted++;
      if (body && 'container' in body && method === 'PATCH') this.#tally.moves++;
      this.#tell(by.name, `with key ${by.keys.indexOf(key)}: ${method} ${path} ${JSON.stringify(body)}`);
    } else if (status === 503) {
      this.#tally.unavailable++;
    } else if (status >= 500) {
      this.#tally.gains.push(
        `${method} ${path} ${JSON.stringify(body)} was answered with ${status}: ${text}`,
      );
    }
    return text;
  }

  #ask(
    key: string,
    method: string,
    path: string,
    body?: object,
    headers = this.#random.chance(0.5) ? stated : [],
  ): Promise<ClientResponse> {
    const options: RequestOptions = { key, headers, ...(body && { body }) };
    return this.#clients.call(this.#index + this.#random.below(3), method, path, options);
  }

  /** Adds a session or a delegation to the group, within what its authorizer may grant. */
  async #authorize(group: Group, by: string): Promise<void> {
    const { call, must } = this.#clients;
    const rules = randomSessionRules(this.#random, group.authorizer?.held ?? tokenPermissions);
    if (group.authorizer && this.#random.chance(0.5)) {
      const issued = await call(this.#index, 'POST', '/delegations', { key: by, body: { rules } });
      if (issued.status !== 201) return;
      group.keys.push(JSON.parse(issued.text).key);
      this.#tell(group.name, `gets delegation ${group.keys.length - 1} with ${JSON.stringify(rules)}`);
      return;
    }
    const made: Body = await must(this.#index, 'POST', '/sessions', { key: this.#web });
    const body = { nonce: made.nonce, rules };
    const { status } = await call(this.#index, 'POST', '/sessions/authorize', { key: by, body });
    if (status !== 204) return;
    group.keys.push(made.session_key);
    this.#tell(group.name, `gets session ${group.keys.length - 1} with ${JSON.stringify(rules)}`);
  }

  /** Varies the case, which containers ignore. */
  #randomContainer(): string {
    const container = this.#random.one(containers);
    return this.#random.chance(0.2) ? container.toUpperCase() : container;
  }

  #secret(group?: Group): string {
    const secret = this.#register.plaintext('moved');
    this.#secrets.add(secret);
    group?.own.add(secret);
    return secret;
  }

  #tell(by: string, what: string): void {
    this.#story.push({ by, what });
  }

  #secretsIn(text: string): string[] {
    return [...this.#secrets].filter((secret) => text.includes(secret));
  }
}
