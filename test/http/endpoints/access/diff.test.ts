/** `GET /access/diff`: who gained and lost access between two times. */

import { beforeEach, describe, expect, test } from 'bun:test';
import { rmSync } from 'node:fs';
import { accessOf } from '../../../../src/domain/access/change.ts';
import { compilePolicy, type Policy } from '../../../../src/domain/policy.ts';
import { quarantined } from '../../../../src/domain/quarantine.ts';
import { temporaryFolder } from '../../../support/cleanup.ts';
import { Random, randomContainer, randomGrants } from '../../../support/random-policy.ts';
import { databases, openTestServer } from '../../../support/test-server.ts';

type Entry = {
  application: { id: string; name: string };
  permission: string;
  container?: string;
  from: string;
  to: string;
  events: { at: string; operation: string; by?: string }[];
};

const hour = 60 * 60_000;
const rule = (container: string, transform: string, permissions = ['token:read']) => ({
  priority: 1,
  container,
  transform,
  permissions,
});

describe.each(databases)('the history of access on %s', async (_, database) => {
  const server = await openTestServer(database);
  let tenant: { id: string; key: string };
  beforeEach(async () => {
    server.clock.advance(hour);
    tenant = await server.tenant();
    server.clock.advance(hour);
  });

  const now = () => new Date(server.clock.now()).toISOString();
  const diff = (query: Record<string, string>, key = tenant.key) =>
    server.call('GET', `/access/diff?${new URLSearchParams(query)}`, { key });
  const application = (name: string, ...rules: object[]) =>
    server.application(tenant.key, { name, permissions: [], rules });
  const change = async (method: string, path: string, body?: object) => {
    server.clock.advance(hour);
    const { status } = await server.call(method, `/applications/${path}`, {
      key: tenant.key,
      ...(body && { body }),
    });
    expect(status).toBeLessThan(300);
  };

  const brief = (entries: Entry[]) =>
    entries
      .map(({ application, permission, container, from, to, events }) =>
        [
          application.name,
          permission,
          ...(container === undefined ? [] : [container]),
          `${from} to ${to}`,
          ...events.map(({ operation }) => operation.replace('application.', '')),
        ].join(' '),
      )
      .sort();

  test('lists who gained, lost and changed access, and which change caused it', async () => {
    const desk = await application('desk', rule('/cards/', 'mask'));
    const gone = await application('gone', rule('/', 'reveal'));
    const same = await application('same', rule('/cards/', 'reveal'));
    server.clock.advance(hour);
    const from = now();
    await change('PUT', desk.id, { name: 'help desk', rules: [rule('/cards/', 'reveal')] });
    await change('DELETE', gone.id);
    const rules = [rule('/', 'mask', ['token:delete'])];
    await change('PUT', same.id, { name: 'same', rules });
    await change('PUT', same.id, { name: 'same', rules: [rule('/cards/', 'reveal')] });
    const late = await application('late', rule('/cards/42/', 'redact'));
    server.clock.advance(hour);
    const middle = now();
    await change('DELETE', desk.id);

    const { status, body } = await diff({ from, to: middle, container: '/cards/42/' });
    expect(status).toBe(200);
    const management = (await server.call('GET', '/applications/key', { key: tenant.key })).body.id;
    expect(brief(body.data)).toEqual([
      'gone token:read /cards/42/ reveal to denied delete',
      'help desk token:read /cards/42/ mask to reveal update',
      'late token:read /cards/42/ denied to redact create',
    ]);
    for (const { events } of body.data as Entry[]) expect(events[0]?.by).toBe(management);
    expect(body).toMatchObject({ complete: true, unknown: [], from, to: middle });
    expect(body).not.toHaveProperty('recorded_since');
    expect(brief((await diff({ from: middle, container: '/cards/' })).body.data)).toEqual([
      'help desk token:read /cards/ reveal to denied delete',
    ]);
    const removed = (await diff({ from: middle, permission: 'token:read' })).body.data as Entry[];
    expect(brief(removed)).toEqual(['help desk token:read /cards/ reveal to denied delete']);
    expect((await diff({ from, to: middle, permission: 'token:update' })).body.data).toEqual([]);
    expect(late.id).toBeDefined();
  });

  test('an expired application has lost its access when it expired, before and after the sweep', async () => {
    const expires = server.clock.now() + 3 * hour;
    const fields = { name: 'temp', permissions: ['log:read'], expires_at: new Date(expires).toISOString() };
    const temp = await server.application(tenant.key, fields);
    const changed = await server.application(tenant.key, { ...fields, name: 'changed' });
    const deleted = await server.application(tenant.key, { ...fields, name: 'deleted' });
    server.clock.advance(hour);
    const from = now();
    await change('PUT', changed.id, { name: 'renamed', permissions: ['log:read', 'a:b'] });
    const between = now();
    server.clock.advance(hour - 1);
    const last = now();
    expect(brief((await diff({ from })).body.data)).toEqual(['renamed a:b / denied to mask update']);
    await server.call('DELETE', `/applications/${deleted.id}`, { key: tenant.key });
    server.clock.advance(1);
    for (const isSwept of [false, true]) {
      if (isSwept) {
        server.clock.advance(hour);
        await server.flush();
      }
      const { body } = await diff({ from });
      expect(body).toMatchObject({ unknown: [], complete: true });
      expect(brief(body.data)).toEqual([
        'deleted log:read mask to denied delete',
        'renamed log:read mask to denied update expire',
        'temp log:read mask to denied expire',
      ]);
      const [lost] = (body.data as Entry[]).filter(({ application }) => application.id === temp.id);
      expect(lost).toMatchObject({ application: { name: 'temp' }, from: 'mask', to: 'denied' });
      expect(brief((await diff({ from, to: between })).body.data)).toEqual([
        'renamed a:b / denied to mask update',
      ]);
      expect(brief((await diff({ from: last, permission: 'a:b' })).body.data)).toEqual([
        'renamed a:b / mask to denied expire',
      ]);
      if (isSwept) expect((await diff({ from: fields.expires_at })).body.data).toEqual([]);
    }
    const entries = (await server.call('GET', `/logs?entity=${temp.id}&size=10`, { key: tenant.key })).body
      .data;
    const expired = entries.filter(
      ({ operation }: { operation: string }) => operation === 'application.expire',
    );
    expect(expired).toHaveLength(1);
    expect(expired[0].actor).toEqual({ kind: 'operator' });
  });

  test.each([1, 2])('agrees with what was decided at random times (seed %d)', async (seed) => {
    const random = new Random(seed);
    const grants = () => {
      const { permissions, rules } = randomGrants(random, 'application');
      return {
        permissions: [...permissions, 'a:b'],
        rules: rules.map((one) => ({ ...one, container: one.container ?? '/' })),
      };
    };
    const apps: { id: string; body: ReturnType<typeof grants>; quarantined: boolean; deleted: boolean }[] =
      [];
    const moments: { at: string; policies: Map<string, Policy> }[] = [];
    for (let step = 0; step < 25; step++) {
      const app = apps.length > 0 && random.chance(0.7) ? random.of(apps) : undefined;
      if (!app) {
        const body = grants();
        const { id } = await server.application(tenant.key, body);
        apps.push({ id, body, quarantined: false, deleted: false });
      } else if (!app.deleted) {
        const kind = random.of(['update', 'update', 'quarantine', 'delete']);
        if (kind === 'update') {
          app.body = grants();
          await change('PUT', app.id, { name: 'x', ...app.body });
        } else if (kind === 'delete') {
          app.deleted = true;
          await change('DELETE', app.id);
        } else {
          app.quarantined = !app.quarantined;
          await change(app.quarantined ? 'POST' : 'DELETE', `${app.id}/quarantine`);
        }
      }
      const live = apps.filter(({ deleted }) => !deleted);
      const policyOf = ({ body, quarantined: isQuarantined }: (typeof apps)[number]) =>
        compilePolicy(isQuarantined ? quarantined(body) : body);
      moments.push({ at: now(), policies: new Map(live.map((one) => [one.id, policyOf(one)])) });
      server.clock.advance(hour);
    }
    for (let round = 0; round < 12; round++) {
      const first = random.below(moments.length - 1);
      const [a, b] = [moments[first]!, moments[first + 1 + random.below(moments.length - first - 1)]!];
      const container = randomContainer(random);
      const none = compilePolicy({ permissions: [], rules: [] });
      const access = ({ policies }: typeof a, id: string) =>
        accessOf(policies.get(id) ?? none, undefined, 'token:read', { container });
      const expected = apps
        .map(({ id }) => `${id} ${access(a, id)} ${access(b, id)}`)
        .filter((line) => line.split(' ')[1] !== line.split(' ')[2]);
      const { body } = await diff({ from: a.at, to: b.at, container, permission: 'token:read' });
      const found = (body.data as Entry[]).map(
        ({ application, from, to }) => `${application.id} ${from} ${to}`,
      );
      expect(found.sort()).toEqual(expected.sort());
    }
  });

  test('starts with the first entry that was not archived, and says so', async () => {
    const folder = temporaryFolder();
    const from = now();
    const desk = await application('desk', rule('/', 'mask'));
    await change('PUT', desk.id, { name: 'desk', rules: [rule('/', 'redact')] });
    server.clock.advance(hour);
    const { maintenance } = server.app;
    await maintenance.audit.seal();
    const [before, tenantId] = [server.clock.now(), tenant.id];
    await change('PUT', desk.id, { name: 'desk', rules: [rule('/', 'reveal')] });
    await maintenance.audit.seal();
    await maintenance.audit.archive({ folder, now: server.clock.now(), before, tenantId });
    rmSync(folder, { recursive: true });
    await change('PUT', desk.id, { name: 'desk', rules: [rule('/', 'mask')] });
    const { body } = await diff({ from });
    expect(body.recorded_since > from).toBe(true);
    expect(body.from).toBe(body.recorded_since);
    expect(body.data).toMatchObject([
      { from: 'reveal', to: 'mask', events: [{ operation: 'application.update' }] },
    ]);
  });

  test('rejects times in the wrong order, and needs access:review', async () => {
    const from = now();
    expect((await diff({ from, to: from })).body.errors).toHaveProperty('from');
    expect((await diff({})).body.errors).toHaveProperty('from');
    expect((await diff({ from, container: 'a//b' })).status).toBe(400);
    const plain = await server.application(tenant.key, { permissions: ['log:read'] });
    server.clock.advance(hour);
    expect((await diff({ from }, plain.key)).status).toBe(403);
    const other = await server.tenant();
    const strangers = (await diff({ from }, other.key)).body.data as Entry[];
    expect(strangers.some(({ application }) => application.id === plain.id)).toBe(false);
  });
});
