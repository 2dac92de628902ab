/** `GET /access/who` agrees with decisions for every application and session. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { applicationKinds, type Minted, mint, newId } from '../../../../src/domain/key.ts';
import { decideUnder, forPurpose, type Resource } from '../../../../src/domain/policy.ts';
import { identityOf } from '../../../../src/domain/principal.ts';
import type { RunSteps } from '../../../../src/domain/steps.ts';
import { runSteps } from '../../../../src/domain/steps.ts';
import { type FoundSubject, reviewAfter, reviewPage } from '../../../../src/http/endpoints/access/review.ts';
import { ScanBudget } from '../../../../src/http/endpoints/access/subject-scan.ts';
import { Random, randomContainer, randomGrants } from '../../../support/random-policy.ts';
import { databases, openTestServer, sqlite } from '../../../support/test-server.ts';

type Entry = {
  subject: { type: string; id: string; name: string };
  transform: string;
  require_purpose?: true;
  [field: string]: unknown;
};
const riskiestFirst = ['reveal', 'mask', 'redact'];

const run: RunSteps = async (steps) => runSteps(steps);

describe.each(databases)('an access review on %s', async (_, database) => {
  const server = await openTestServer(database);
  let tenant: { id: string; key: string };
  beforeEach(async () => {
    tenant = await server.tenant();
  });

  const who = (query: string, key = tenant.key) => server.call('GET', `/access/who?${query}`, { key });

  async function everyPage(query: string, size: number): Promise<Entry[]> {
    const entries: Entry[] = [];
    for (let next = ''; ; ) {
      const { status, body } = await who(`${query}&size=${size}${next && `&start=${next}`}`);
      expect(status).toBe(200);
      expect('totals' in body).toBe(next === '');
      expect(body.data.length).toBeLessThanOrEqual(size);
      entries.push(...body.data);
      next = body.pagination.next ?? '';
      if (!next) return entries;
    }
  }

  /** Creates applications and sessions with random grants, some expired, pending or ended. Returns their keys. */
  async function randomSubjects(random: Random): Promise<Minted[]> {
    const { store } = server.app;
    const { tag } = (await store.tenants.get(tenant.id))!;
    const keys: Minted[] = [];
    const [past, future] = [server.clock.now() + 1, server.clock.now() + 60_000];
    const applications: string[] = [];
    for (let index = 0; index < 40; index++) {
      const type = random.of(['private', 'public', 'management'] as const);
      const [id, key] = [newId(server.clock.now()), mint(applicationKinds[type], tag)];
      const expiresAt = random.of([undefined, undefined, future, past]);
      const grants = randomGrants(random, 'application');
      const fields = { id, name: `app ${index}`, type, ...grants, createdBy: undefined, expiresAt };
      await store.applications.create(tenant.id, { ...fields, createdAt: server.clock.now() }, key);
      applications.push(id);
      keys.push(key);
    }
    for (let index = 0; index < 40; index++) {
      const [id, key, nonce] = [newId(server.clock.now()), mint('ses', tag), mint('non', tag)];
      const session = { id, applicationId: random.of(applications), key: key.digest, nonce: nonce.digest };
      const times = { createdAt: server.clock.now(), expiresAt: random.chance(0.1) ? past : future };
      await store.sessions.create(tenant.id, { ...session, ...times });
      keys.push(key);
      if (random.chance(0.1)) continue;
      const ceiling = random.chance(0.6) ? random.of(keys.slice(0, 40)).digest : undefined;
      const grants = randomGrants(random, 'session');
      const by = random.of(applications.filter((other) => other !== session.applicationId));
      const authorization = { ...grants, by, ceiling, expiresAt: undefined, maxLifetime: 60_000 };
      await store.sessions.authorize(tenant.id, nonce.digest, authorization);
      if (random.chance(0.1)) await store.sessions.end(tenant.id, id);
    }
    for (const id of applications.slice(0, 4)) await store.applications.delete(tenant.id, id);
    server.clock.advance(1);
    return keys;
  }

  /** The transform for every allowed key, by the id of its application or session. */
  async function decisions(keys: readonly Minted[], permission: string, resource: Resource) {
    const allowed = new Map<string, string[]>();
    for (const key of keys) {
      const principal = await server.app.store.credentials.find(key);
      if (!principal) continue;
      const [stated, unstated] = ['support', undefined].map((purpose) => {
        const { policy, ceiling } = forPurpose(principal, purpose);
        return decideUnder(policy, ceiling, permission, resource);
      });
      const id = principal.kind === 'session' ? principal.sessionId : principal.applicationId;
      if (!stated?.allowed || !unstated?.allowed) continue;
      const isRequired = stated.transform !== unstated.transform;
      allowed.set(id, [stated.transform, isRequired ? 'with a purpose' : 'always']);
    }
    return allowed;
  }

  test.each(database === sqlite ? [1, 2] : [1])(
    'lists exactly who is allowed, with random grants (seed %d)',
    async (seed) => {
      const random = new Random(seed);
      const keys = await randomSubjects(random);
      const management = (await server.call('GET', '/applications/key', { key: tenant.key })).body.id;
      for (let round = 0; round < 8; round++) {
        const [container, id] = [randomContainer(random), random.of(['card-1', 'card-10', 'Card-1'])];
        const isToken = random.chance(0.5);
        const token = `${id}.${seed}.${round}`;
        if (isToken) {
          const body = { id: token, container, data: 'x' };
          expect((await server.call('POST', '/tokens', { key: tenant.key, body })).status).toBe(201);
        }
        const permission = random.of(['token:read', 'token:update', 'invoice:read', 'decision:create']);
        const query = `${isToken ? `token=${token}` : `container=${container}`}&permission=${permission}`;
        const expected = await decisions(
          keys,
          permission,
          isToken ? { id: token, container } : { container },
        );
        const { body } = await who(`${query}&size=100`);
        const listed = (entries: Entry[]) =>
          entries
            .filter(({ subject }) => subject.id !== management)
            .map(({ subject, transform, require_purpose }) => {
              const when = require_purpose ? 'with a purpose' : 'always';
              return [subject.id, [transform, when]] as [string, string[]];
            });
        expect(new Map(listed(body.data))).toEqual(expected);
        const risks = body.data.map(({ transform }: Entry) => riskiestFirst.indexOf(transform));
        expect(risks).toEqual(risks.toSorted());
        const counts = Object.entries(body.totals as Record<string, number>);
        for (const [transform, total] of counts)
          expect(body.data.filter((entry: Entry) => entry.transform === transform)).toHaveLength(total);
        expect(body.pagination.total_items).toBe(body.data.length);
        expect(await everyPage(query, 4 + random.below(9))).toEqual(body.data);
        const second = (await who(`${query}&size=5&page=2`)).body;
        expect([second.data, second.totals]).toEqual([body.data.slice(5, 10), body.totals]);
        const after = (await who(`${query}&size=100&page=101`)).body;
        expect([after.data, after.totals]).toEqual([[], body.totals]);
      }
    },
  );

  test('reads, the review, decisions and AuthZEN agree about tokens with and without max_uses', async () => {
    const random = new Random(3);
    const keys = await randomSubjects(random);
    const tokens = ['card-1', 'card-10', 'Card-1', 'tok:1.a'].map((id, index) => {
      const fields = { id, container: randomContainer(random), data: 'secret' };
      return { ...fields, mask: '{{ data | reveal_last: 1 }}', ...(index % 2 === 0 && { max_uses: 1 }) };
    });
    for (const body of tokens)
      expect((await server.call('POST', '/tokens', { key: tenant.key, body })).status).toBe(201);
    const found = await Promise.all(keys.map((key) => server.app.store.credentials.find(key)));
    const holders = found.flatMap((principal, at) =>
      principal ? [{ id: identityOf(principal).id, key: (keys[at] as Minted).secret.reveal() }] : [],
    );
    const seen = new Set<string>();
    for (const { id, container } of tokens) {
      const review = new Map(
        (await who(`token=${id}&size=100`)).body.data.map((one: Entry) => [one.subject.id, one]),
      );
      for (const holder of holders)
        for (const purpose of ['support', undefined]) {
          const headers: Record<string, string> = purpose ? { 'SVC-PURPOSE': purpose } : {};
          const { status, body } = await server.call('GET', `/tokens/${id}`, { key: holder.key, headers });
          const read =
            status !== 200 ? undefined : body.data === 'secret' ? 'reveal' : body.data ? 'mask' : 'redact';
          seen.add(`${id} ${read}`);
          const asked = { credential: holder.key, permission: 'token:read', purpose };
          const decided = await server.call('POST', '/decisions', {
            key: tenant.key,
            body: { ...asked, resource: { id, container } },
          });
          const evaluated = await server.call('POST', '/access/v1/evaluation', {
            key: tenant.key,
            body: {
              subject: { type: 'application', id: 'x', properties: { credential: holder.key } },
              action: { name: 'read' },
              resource: { type: 'token', id },
              context: { purpose },
            },
          });
          const { transform, require_purpose } = (review.get(holder.id) ?? {}) as Partial<Entry>;
          const reviewed = require_purpose && !purpose ? 'mask' : transform;
          const answers = [reviewed, decided.body.transform, evaluated.body.context.transform];
          expect([id, holder.id, ...answers]).toEqual([id, holder.id, read, read, read]);
        }
    }
    for (const { id, max_uses } of tokens) expect([id, seen.has(`${id} reveal`)]).toEqual([id, !max_uses]);
  });

  test('with a small budget, the pages are shorter, have the same entries, and other requests run in between', async () => {
    const keys = await randomSubjects(new Random(4));
    const [tenantId, permission, resource] = [tenant.id, 'token:read', { container: '/pci/' }];
    const review = { tenantId, permission, resource };
    const { store } = server.app;
    const whole = await reviewPage(store, run, review, 1, 100);
    expect(whole.found.length).toBeGreaterThan(10);
    let [turns, isRunning] = [0, true];
    const countTurns = () => {
      turns++;
      if (isRunning) setImmediate(countTurns);
    };
    setImmediate(countTurns);
    const found: FoundSubject[] = [];
    let pages = 0;
    for (const smallest of [new ScanBudget(7, 1e9, 3), new ScanBudget(1e9, 1, 3)]) {
      let page = await reviewPage(store, run, review, 1, 4, smallest);
      expect(page.totals).toBeUndefined();
      found.length = 0;
      for (;;) {
        pages++;
        found.push(...page.found);
        if (!page.next) break;
        page = await reviewAfter(store, run, review, page.next, 4, new ScanBudget(7, 1e9, 3));
      }
      expect(found).toEqual([...whole.found]);
    }
    isRunning = false;
    expect(pages).toBeGreaterThan((2 * keys.length) / 7);
    expect(turns).toBeGreaterThan((2 * keys.length) / 3);
  });

  test('says which rule decides, who limits a session, and when the permission was last used', async () => {
    const rule = { priority: 1, container: '/Customers/', transform: 'mask', permissions: ['token:read'] };
    const fields = { permissions: undefined, rules: [{ ...rule, description: 'Support' }] };
    const desk = await server.application(tenant.key, { name: 'desk', ...fields });
    const web = await server.application(tenant.key, { name: 'web', type: 'public', permissions: ['a:b'] });
    const { nonce } = (await server.call('POST', '/sessions', { key: web.key })).body;
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/customers/42/' }];
    const rules = [{ priority: 1, conditions, transform: 'reveal', permissions: ['token:read'] }];
    await server.call('POST', '/sessions/authorize', { key: desk.key, body: { nonce, rules } });
    const card = { id: 'card-42', container: '/customers/42/', data: 'x' };
    await server.call('POST', '/tokens', { key: tenant.key, body: card });
    await server.call('GET', '/tokens/card-42', { key: desk.key });
    await server.flush();
    const { body } = await who('token=card-42');
    const limited = { type: 'application', id: desk.id, name: 'desk' };
    const common = { permission: 'token:read', transform: 'mask' };
    expect(body.data.slice(1)).toEqual([
      {
        subject: expect.objectContaining({ type: 'application' }),
        ...common,
        rule: { of: 'application', rule: 'permissions' },
      },
      {
        subject: { type: 'session', id: expect.any(String), name: 'web' },
        ...common,
        rule: { of: 'authorizer', rule: 1, description: 'Support' },
        limited_by: limited,
      },
    ]);
    expect(body.data[0]).toEqual({
      subject: limited,
      ...common,
      rule: { of: 'application', rule: 1, description: 'Support' },
      last_used_at: expect.stringMatching(/Z$/),
    });
    const lastUse = async (container: string) => {
      const { data } = (await who(`container=${container}`)).body as { data: Entry[] };
      return (data.find(({ subject }) => subject.id === desk.id) as { last_used_at?: string })?.last_used_at;
    };
    // Uses of many containers are recorded for their parent, so a use of the parent counts for those below it.
    expect(await lastUse('/customers/42/deeper/')).toBeDefined();
    expect(await lastUse('/customers/43/')).toBeUndefined();
  });

  test.each([
    ['', 'container'],
    ['container=/a/&token=card-42', 'container'],
    ['container=a//b', 'container'],
    ['token=a', 'token'],
    ['container=/&permission=token:fly', 'permission'],
    ['container=/&start=AAAA', 'start'],
    ['container=/&start=_wAAAAAAAAAAAAAAAAAAAAA', 'start'],
  ])('rejects the query %p', async (query, field) => {
    const { status, body } = await who(query);
    expect([status, Object.keys(body.errors)]).toEqual([400, [field]]);
  });

  test('lists an application without a valid key, but not an expired one', async () => {
    const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] }];
    const expires_at = new Date(server.clock.now() + 60_000).toISOString();
    const keyless = await server.application(tenant.key, { permissions: [], rules });
    const expiring = await server.application(tenant.key, { permissions: [], rules, expires_at });
    const keys = `/applications/${keyless.id}/keys`;
    for (const { id } of (await server.call('GET', keys, { key: tenant.key })).body.data)
      expect((await server.call('DELETE', `${keys}/${id}`, { key: tenant.key })).status).toBe(204);
    expect((await server.call('GET', '/tokens', { key: keyless.key })).status).toBe(401);
    const listed = async () => (await who('container=/a/')).body.data.map(({ subject }: Entry) => subject.id);
    expect(await listed()).toEqual(expect.arrayContaining([keyless.id, expiring.id]));
    server.clock.advance(60_000);
    expect(await listed()).toContain(keyless.id);
    expect(await listed()).not.toContain(expiring.id);
  });

  test('an unknown token gets 404, like one of another tenant', async () => {
    const other = await server.tenant();
    await server.call('POST', '/tokens', { key: other.key, body: { id: 'card-7', data: 'x' } });
    expect((await who('token=card-7')).status).toBe(404);
    expect((await who('token=card-8')).status).toBe(404);
  });
});
