/**
 * No sequence of requests shows a key more of a secret than the key could see at the start. There are two exceptions. A
 * key that can reveal the secret may pass it on. A private key may move the token to another container, if it has
 * access to the old and the new one. Policies and requests are generated.
 */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const seed = 20_261_115;
const levels = ['none', 'redact', 'mask', 'reveal'] as const;
type Level = (typeof levels)[number];
const containers = ['/s/', '/o/', '/o/below/'] as const;
const permissions = ['token:read', 'token:update', 'token:create', 'token:delete'] as const;
type Policy = Record<(typeof containers)[number], Record<(typeof permissions)[number], Level>>;

const secret = 'Ada-Lovelace-7731';
const mask = 'ends in {{ data.secret | last: 4 }}';
const masks = ['{{ data.secret }}', '{{ data.secret | reveal_first: 16 }}', '{{ data.other }}', null];

/** Random levels, mostly with access, so that most requests change something. */
const level = fc.constantFrom(...levels, 'redact', 'mask', 'reveal');
const grant = fc.record({
  'token:read': level,
  'token:update': level,
  'token:create': level,
  'token:delete': level,
});
const policy: fc.Arbitrary<Policy> = fc.record({ '/s/': grant, '/o/': grant, '/o/below/': grant });

/** A public key, two private keys, and sessions of the public application: two authorized by `bound`, one by `free`. */
const callers = ['public', 'bound', 'free', 'session 1', 'session 2', 'session of free'] as const;
type Caller = (typeof callers)[number];
const isPrivate = (caller: Caller) => caller === 'bound' || caller === 'free';

const by = fc.constantFrom(...callers);
const move = { container: fc.constantFrom(...containers, '/O/Below/', '/S/', null) };
const remask = { mask: fc.constantFrom(...masks) };
const merge = { data: fc.constantFrom({ other: 'changed' }, { other: null }, {}) };
const replace = { data: fc.constantFrom('all new', { secret: 'new' }), mask: fc.constant(null) };
const patch = (weight: number, fields: Record<string, fc.Arbitrary<unknown>>) => ({
  weight,
  arbitrary: fc.record({ by, body: fc.record(fields) }),
});
/** An action without a body deletes the token and creates another with the same id. */
const action = fc.oneof(
  patch(10, move),
  patch(4, remask),
  patch(3, merge),
  patch(2, { ...move, ...remask, ...merge }),
  patch(1, { ...move, ...replace }),
  { weight: 1, arbitrary: fc.record({ by, body: fc.constant(undefined) }) },
);
type Action = typeof action extends fc.Arbitrary<infer T> ? T : never;

function rulesOf(grants: Policy, scope: (container: string) => object) {
  return containers.flatMap((container, at) =>
    (['redact', 'mask', 'reveal'] as const).flatMap((transform) => {
      const granted = permissions.filter((each) => grants[container][each] === transform);
      const rule = { priority: containers.length - at, transform, permissions: granted, ...scope(container) };
      return granted.length > 0 ? [rule] : [];
    }),
  );
}
const byContainer = (container: string) => ({ container });
const byCondition = (value: string) => ({
  conditions: [{ attribute: 'container', operator: 'starts_with', value }],
});
/** A rule without token permissions, because an application needs at least one grant. */
const idle = { priority: 9, container: '/idle/', transform: 'redact', permissions: ['idle:read'] };

describe(`with the seed ${seed}`, async () => {
  const server = await openTestServer(sqlite);

  async function open(policies: Record<Caller, Policy>): Promise<Record<Caller, string>> {
    const { key } = await server.tenant();
    const rules = (caller: Caller) => [...rulesOf(policies[caller], byContainer), idle];
    const make = (caller: Caller, fields: object) =>
      server.application(key, { permissions: [], rules: rules(caller), ...fields });
    const body = { id: 'secret', container: '/s/', data: { secret, other: 'x' }, mask };
    const [web, bound, free, created] = await Promise.all([
      make('public', { type: 'public' }),
      make('bound', {}),
      make('free', { permissions: ['session:authorize'] }),
      server.call('POST', '/tokens', { key, body }),
    ]);
    expect(created.status).toBe(201);
    const session = async (caller: Caller, authorizer: string) => {
      const { body } = await server.call('POST', '/sessions', { key: web.key });
      const held = new Set<string>(
        authorizer === free.key ? permissions : rules('bound').flatMap((one) => one.permissions),
      );
      const granted = rulesOf(policies[caller], byCondition)
        .map((one) => ({ ...one, permissions: one.permissions.filter((each) => held.has(each)) }))
        .filter((one) => one.permissions.length > 0);
      const grant = { nonce: body.nonce, rules: granted };
      if (granted.length > 0) {
        const { status } = await server.call('POST', '/sessions/authorize', { key: authorizer, body: grant });
        expect(status).toBe(204);
      }
      return body.session_key;
    };
    const [one, two, three] = await Promise.all([
      session('session 1', bound.key),
      session('session 2', bound.key),
      session('session of free', free.key),
    ]);
    return {
      public: web.key,
      bound: bound.key,
      free: free.key,
      'session 1': one,
      'session 2': two,
      'session of free': three,
    };
  }

  /** How much of the secret the responses to this key contain. */
  async function seenBy(key: string): Promise<Level> {
    const replies = await Promise.all([
      server.call('GET', '/tokens/secret', { key }),
      server.call('PATCH', '/tokens/secret', { key, body: { type: 'token' } }),
    ]);
    const returned = replies.map(({ body }) => JSON.stringify(body.data ?? ''));
    if (returned.some((text) => text.includes(secret))) return 'reveal';
    if (returned.some((text) => text.includes(secret.slice(-4)) || text.includes(secret.slice(0, -1))))
      return 'mask';
    return replies.some(({ status }) => status === 200) ? 'redact' : 'none';
  }

  async function look(keys: Record<Caller, string>): Promise<Record<Caller, Level>> {
    const seen = await Promise.all(callers.map(async (caller) => [caller, await seenBy(keys[caller])]));
    return Object.fromEntries(seen) as Record<Caller, Level>;
  }

  /** Sends the request of the action. Returns false if the secret no longer exists. */
  async function act(key: string, { body }: Action): Promise<boolean> {
    if (body) {
      const { status } = await server.call('PATCH', '/tokens/secret', { key, body });
      const isNew = body.data === 'all new' || Object.hasOwn(Object(body.data), 'secret');
      return !(isNew && status === 200);
    }
    const gone = await server.call('DELETE', '/tokens/secret', { key });
    await server.call('POST', '/tokens', { key, body: { id: 'secret', container: '/s/', data: 'another' } });
    return gone.status !== 204;
  }

  const beyond = (one: Level, other: Level) => levels.indexOf(one) > levels.indexOf(other);

  test('no key sees more of a secret than before, except by a key that may disclose it', async () => {
    const scenarios = fc.record({
      policies: fc.record({
        public: policy,
        bound: policy,
        free: policy,
        'session 1': policy,
        'session 2': policy,
        'session of free': policy,
      }),
      actions: fc.array(action, { minLength: 4, maxLength: 10 }),
    });
    const tally = { runs: 0, moved: 0 };
    await fc.assert(
      fc.asyncProperty(scenarios, async ({ policies, actions }) => {
        const keys = await open(policies);
        let before = await look(keys);
        const entitled = { ...before };
        tally.runs++;
        for (const step of actions) {
          if (!(await act(keys[step.by], step))) return;
          const now = await look(keys);
          if (callers.some((caller) => now[caller] !== before[caller])) tally.moved++;
          for (const caller of callers) {
            const [had, has] = [entitled[caller], now[caller]];
            if (!beyond(has, had)) continue;
            const returned = before[step.by] === 'reveal' && caller !== step.by;
            const granted =
              isPrivate(step.by) && caller !== step.by && !beyond(has, limitOf(caller, step.by, entitled));
            if (!returned && !granted)
              throw new Error(`${caller} came from ${had} to ${has} by ${JSON.stringify(step)}`);
            entitled[caller] = has;
          }
          before = now;
        }
      }),
      { seed, numRuns: 25 },
    );

    expect(tally.moved).toBeGreaterThan(10);
  });

  /** What `caller` may see after `by` moved the token. A session of `by` sees at most what `by` could see before. */
  function limitOf(caller: Caller, by: Caller, entitled: Record<Caller, Level>): Level {
    const isItsSession = by === 'bound' && caller.startsWith('session ') && caller !== 'session of free';
    return isItsSession ? entitled.bound : 'reveal';
  }
});
