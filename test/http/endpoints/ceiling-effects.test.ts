/** An authorizer learns no data through its sessions and delegations. Random grants and writes. */
import { expect, test } from 'bun:test';
import { naiveDecide } from '../../support/naive-policy.ts';
import { Random } from '../../support/random-policy.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const rounds = 40;
const writes = 12;
const containers = ['/', '/a/', '/a/b/', '/c/'];
const names = ['token:create', 'token:read', 'token:update', 'token:delete', 'token:search'];
const wide = { mask: '{{ data.x | first: 7 }}', search: { s: '{{ data.x }}' } };
const unlimited = {
  SALLYPORT_SEARCHES_PER_MINUTE: '0',
  SALLYPORT_SEARCH_MISSES_PER_MINUTE: '0',
  SALLYPORT_RATE_PER_KEY: '0',
};

const server = await openTestServer(sqlite, unlimited);

interface Grants {
  permissions: string[];
  rules: {
    priority: number;
    container: string;
    transform: 'redact' | 'mask' | 'reveal';
    permissions: string[];
  }[];
}
/** Of each secret, what its owner's application may know: everything, or the listed facts. */
type Known = 'all' | ReadonlySet<string>;

test('an authorizer learns nothing through its sessions and delegations that it could not learn itself', async () => {
  const counts = { written: 0, refused: 0, learned: 0 };
  for (let seed = 1; seed <= rounds; seed++) await round(new Random(seed), seed, counts);
  // The test itself reaches both outcomes often.
  expect(Math.min(...Object.values(counts))).toBeGreaterThan(rounds);
});

async function round(
  random: Random,
  seed: number,
  counts: Record<'written' | 'refused' | 'learned', number>,
) {
  const { key: management } = await server.tenant();
  const call = (key: string, method: string, path: string, body?: unknown) =>
    server.call(method, path, { key, body });
  const some = (from: readonly string[]) => from.filter(() => random.chance(0.7));
  const grants: Grants = {
    permissions: [],
    rules: random.some(1 + random.below(3), () => ({
      priority: 1 + random.below(3),
      container: random.of(containers),
      transform: random.of(['redact', 'mask', 'reveal']),
      permissions: [random.of(names), ...some(names)],
    })),
  };
  const backend = await server.application(management, { ...grants });
  const held = [...new Set(grants.rules.flatMap(({ permissions }) => permissions))];
  const reveals = (container: string) =>
    ['token:read', 'token:update'].some((permission) => {
      const verdict = naiveDecide(grants, permission, { container });
      return verdict.allowed && verdict.transform === 'reveal';
    });

  /** By the secret in the data. Its digits occur in no other token. */
  const known = new Map<string, { id: string; may: Known }>();
  let next = 0;
  const newSecret = () => `${10_000_000_000 + ++next * 97_000_001}`;
  const facts = async (id: string, secret: string): Promise<Set<string>> => {
    const replies = await Promise.all([
      call(backend.key, 'GET', `/tokens/${id}`),
      call(backend.key, 'GET', `/tokens?id=${id}`),
      call(backend.key, 'PATCH', `/tokens/${id}`, { type: 'seen' }),
      call(backend.key, 'POST', '/tokens/search', { equals: { s: secret } }),
    ]);
    const shown = replies.flatMap(({ body: { data } }) =>
      Array.isArray(data) ? data.map((one) => one.data) : [data],
    );
    const texts = JSON.stringify(shown);
    const learned = new Set<string>();
    if (texts.includes(secret)) learned.add('reveal');
    if (texts.includes(secret.slice(0, 7))) learned.add('first');
    if (texts.includes(secret.slice(-4))) learned.add('last');
    if (replies[3]?.status === 200 && replies[3].body.data.length > 0) learned.add('found');
    return learned;
  };
  for (const container of containers) {
    const [id, secret] = [`old-${next}`, newSecret()];
    const fields = random.of([{}, { mask: '{{ data.x | last: 4 }}' }, { search: wide.search }]);
    const body = { id, container, data: { x: secret, y: 'z' }, ...fields };
    expect((await call(management, 'POST', '/tokens', body)).status).toBe(201);
    known.set(secret, { id, may: reveals(container) ? 'all' : await facts(id, secret) });
  }

  const conditions = () => [
    { attribute: 'container', operator: 'starts_with', value: random.of(containers) },
  ];
  const granted = {
    rules: random.some(1 + random.below(2), () => {
      const permissions = [random.of(held), ...some(held)];
      const creates = permissions.includes('token:create') && random.chance(0.6);
      const transform = random.of(['redact', 'mask', 'reveal', 'reveal']);
      const rule = { priority: 1 + next++, transform, permissions, conditions: conditions() };
      const defaults = random.of([wide, { mask: wide.mask }, { search: wide.search }]);
      return creates ? { ...rule, defaults } : rule;
    }),
  };
  const web = await server.application(management, { type: 'public' });
  const { body: opened } = await call(web.key, 'POST', '/sessions');
  const authorized = await call(backend.key, 'POST', '/sessions/authorize', {
    nonce: opened.nonce,
    ...granted,
  });
  // A grant that gives nothing under the ceiling is refused.
  if (authorized.status === 400) return;
  expect(authorized.status).toBe(204);
  const delegation = await call(backend.key, 'POST', '/delegations', granted);
  const keys = [opened.session_key as string, delegation.body.key as string];

  const patches: (() => object)[] = [
    () => ({ mask: wide.mask }),
    () => ({ search: wide.search }),
    () => ({ container: random.of(containers) }),
    () => ({ container: random.of(containers), metadata: { moved: 'yes' } }),
    () => ({ data: { y: random.of(['1', null]) } }),
    () => ({ data: { y: '1' }, ...wide }),
    () => ({ mask: null, search: null }),
    () => ({ expires_at: new Date(server.clock.now() + 3_600_000).toISOString() }),
    () => ({ type: 'other', container: random.of(containers) }),
  ];
  for (let count = 0; count < writes; count++) {
    const key = random.of(keys);
    const ids = [...known.values()].map(({ id }) => id);
    const secret = newSecret();
    const container = random.of(containers);
    let reply: Awaited<ReturnType<typeof call>>;
    if (random.chance(0.4)) {
      // The holder sends data alone. With its own templates, it could tell anything.
      const extra = random.of([
        {},
        {},
        { id: random.of(ids) },
        { unless_exists: 's' },
        { metadata: { a: 'b' } },
      ]);
      const body = { id: `new-${next}`, container, data: { x: secret, y: 'z' }, ...extra };
      const isBatch = random.chance(0.4);
      const path = isBatch ? '/tokens/batch' : '/tokens';
      reply = await call(key, 'POST', path, isBatch ? { tokens: [body] } : body);
      const { id } = isBatch ? (reply.body.data?.[0] ?? {}) : reply.body;
      if (reply.status === 201 && (!isBatch || ![...known.values()].some((one) => one.id === id)))
        known.set(secret, { id, may: reveals(container) ? 'all' : new Set() });
    } else if (random.chance(0.2)) {
      const id = random.of(ids);
      reply = await call(key, 'PUT', `/tokens/${id}`, { data: { x: secret, y: 'z' } });
      if (reply.status === 200)
        known.set(secret, { id, may: reveals(reply.body.container) ? 'all' : new Set() });
    } else if (random.chance(0.9))
      reply = await call(key, 'PATCH', `/tokens/${random.of(ids)}`, random.of(patches)());
    else reply = await call(key, 'DELETE', `/tokens/${random.of(ids)}`);
    counts[reply.status < 300 ? 'written' : 'refused']++;
    expect([200, 201, 204, 400, 403, 404, 409]).toContain(reply.status);
  }
  for (const [secret, { id, may }] of known) {
    const learned = await facts(id, secret);
    counts.learned += learned.size;
    if (may === 'all') continue;
    expect({ seed, id, grants, granted, more: [...learned].filter((fact) => !may.has(fact)) }).toMatchObject({
      more: [],
    });
  }
}
