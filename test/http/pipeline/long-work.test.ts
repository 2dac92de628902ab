/** Long computations pause, so that no request holds up the others. */
import { describe, expect, test } from 'bun:test';
import { builtIn } from '../../../src/domain/permission.ts';
import type { Steps } from '../../../src/domain/steps.ts';
import { LongWork } from '../../../src/http/pipeline/long-work.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

/** An event loop that a test turns. Every look at the clock takes a millisecond. */
class ManualTurns {
  #time = 0;
  readonly #next: (() => void)[] = [];
  now = () => this.#time++;
  next = (work: () => void) => void this.#next.push(work);

  turn(): boolean {
    const work = this.#next.splice(0);
    for (const each of work) each();
    return work.length > 0;
  }
}

const unlimited: ConstructorParameters<typeof LongWork>[0] = {
  check: () => {},
  spend: () => {},
};

/** Counts its steps under `name`. */
function* counted(name: string, steps: number, log: string[]): Steps<string> {
  for (let step = 0; step < steps; step++) {
    log.push(name);
    yield;
  }
  return name;
}

function* broken(): Steps<void> {
  yield;
  throw new Error('broken');
}

function setUp(limits = unlimited) {
  const turns = new ManualTurns();
  const work = new LongWork(limits, turns);
  const log: string[] = [];
  const run = (applicationId: string, name: string, steps: number) =>
    work.run({ applicationId }, counted(name, steps, log));
  return { turns, log, run };
}

describe('long work', () => {
  test('a short computation is complete in the turn in which it starts', async () => {
    const { log, run } = setUp();
    expect(await run('a', 'one', 1)).toBe('one');
    expect(log).toEqual(['one']);
  });

  test('a long computation pauses after a few milliseconds, and continues in the next turn', async () => {
    const { turns, log, run } = setUp();
    const result = run('a', 'long', 20);
    const perTurn = [log.length];
    while (turns.turn()) perTurn.push(log.length);
    expect(await result).toBe('long');
    expect(perTurn.length).toBeGreaterThan(5);
    perTurn.reduce((before, now) => {
      expect(now - before).toBeLessThanOrEqual(4);
      return now;
    });
  });

  test('all computations share the time of a turn', () => {
    const { turns, log, run } = setUp();
    for (let number = 0; number < 16; number++) void run('a', `${number}`, 100);
    const first = log.length;
    turns.turn();
    expect([first, log.length - first].every((steps) => steps <= 4)).toBe(true);
  });

  test('an application with one request is not behind all requests of another', async () => {
    const { turns, log, run } = setUp();
    for (let number = 0; number < 30; number++) void run('a', 'many', 100);
    const single = run('b', 'single', 8);
    for (let turn = 0; turn < 8; turn++) turns.turn();
    expect(await single).toBe('single');
    expect(log.filter((name) => name === 'many').length).toBeLessThan(30);
  });

  test('an error rejects the request, and the others go on', async () => {
    const { turns, run } = setUp();
    const work = new LongWork(unlimited, turns);
    const failing = work.run({ applicationId: 'a' }, broken());
    await expect(failing).rejects.toThrow('broken');
    expect(await run('a', 'next', 1)).toBe('next');
  });

  test('too many waiting computations of one application get 429, of all together 503', async () => {
    const { run } = setUp();
    const code = (application: string) => run(application, 'x', 100).catch((error) => error.code);
    const waiting = Array.from({ length: 33 }, () => code('a'));
    expect(await waiting.at(-1)).toBe('too_many_requests');
    for (let other = 0; other < 500; other++) void code(`other ${other}`);
    expect(await code('one more')).toBe('unavailable');
  });

  test('the time of the slices counts against the limit of the application', async () => {
    const spent: [string, number][] = [];
    const { turns, run } = setUp({
      ...unlimited,
      spend: (_, name, time = 1) => void spent.push([name, time]),
    });
    const result = run('a', 'long', 20);
    while (turns.turn());
    await result;
    const total = spent.reduce((sum, [, time]) => sum + time, 0);
    expect([new Set(spent.map(([name]) => name)), total > 20]).toEqual([new Set(['a']), true]);
  });
});

/** A real event loop in which every look at the clock takes a millisecond, so a turn has at most four steps. */
function countingTurns() {
  let [time, turns] = [0, 0];
  return {
    now: () => time++,
    next: (work: () => void) => {
      turns++;
      setImmediate(work);
    },
    /** The number of turns since the last call. */
    take: () => {
      const taken = turns;
      turns = 0;
      return taken;
    },
  };
}

describe('requests about many rules', async () => {
  const turns = countingTurns();
  const rules = Array.from({ length: 50 }, (_, at) => ({
    priority: at + 1,
    container: `/a/${at}/`,
    transform: 'reveal',
    permissions: ['token:read', 'mine:x'],
  }));
  const grants = { permissions: ['decision:create'], rules };
  const resources = Array.from({ length: 100 }, (_, at) => ({ id: `t-${at}`, container: `/a/${at}/` }));
  const env = { SALLYPORT_PROCESSING_PER_APPLICATION: '0' };
  const server = await openTestServer(sqlite, env, undefined, { turns });
  const { key } = await server.tenant();
  const backend: { id: string; key: string } = await server.application(key, grants);
  const ids: string[] = [backend.id];
  for (let count = 0; count < 60; count++) ids.push((await server.application(key, grants)).id);
  const web = await server.application(key, { type: 'public' });
  for (let count = 0; count < 10; count++) {
    const { nonce } = (await server.call('POST', '/sessions', { key: web.key })).body;
    const rule = { priority: 1, transform: 'reveal', permissions: ['token:read'] };
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: `/a/${count}/` }];
    const body = { nonce, rules: [{ ...rule, conditions }] };
    await server.call('POST', '/sessions/authorize', { key: backend.key, body });
  }

  const evaluation = (id: string | undefined) => ({
    subject: { type: 'application', id },
    action: { name: 'read' },
    resource: { type: 'token', id: 'none', properties: { container: '/a/1/' } },
  });
  const from = '2026-01-01T00:00:00Z';

  // One step per resource, evaluation, subject, rule or row, four of them in a turn.
  test.each<[what: string, method: string, path: () => string, body: () => unknown, atLeast: number]>([
    [
      '100 decisions',
      'POST',
      () => '/decisions',
      () => ({ credential: backend.key, permission: 'token:read', resources }),
      20,
    ],
    [
      '100 recorded decisions',
      'POST',
      () => '/decisions',
      () => ({ credential: backend.key, permission: 'token:read', resources, record: true }),
      40,
    ],
    [
      '60 evaluations',
      'POST',
      () => '/access/v1/evaluations',
      () => ({ evaluations: ids.map(evaluation) }),
      12,
    ],
    [
      'a search of subjects',
      'POST',
      () => '/access/v1/search/subject',
      () => ({ ...evaluation(undefined), subject: { type: 'application' } }),
      12,
    ],
    ['a review', 'GET', () => '/access/who?container=/a/1/&size=100', () => undefined, 24],
    ['a comparison of access', 'GET', () => `/access/diff?from=${from}`, () => undefined, 40],
    ['advice', 'GET', () => '/access/advice?size=100', () => undefined, 200],
    ['usage', 'GET', () => `/applications/${backend.id}/usage`, () => undefined, 20],
    ['a list of applications', 'GET', () => '/applications?size=100', () => undefined, 12],
    [
      'a preview',
      'PUT',
      () => `/applications/${backend.id}?dry_run=true`,
      () => ({ name: 'x', permissions: ['decision:create'] }),
      40,
    ],
  ])('%s: other requests are handled in between', async (_, method, path, body, atLeast) => {
    turns.take();
    const { status } = await server.call(method, path(), { key, body: body() });
    expect(status).toBe(200);
    expect(turns.take()).toBeGreaterThanOrEqual(atLeast);
  });

  test('a body of more than 16 KiB is read in several turns, a small one in none', async () => {
    const create = (length: number) =>
      server.call('POST', '/tokens', { key, body: { data: 'x'.repeat(length) } });
    turns.take();
    expect((await create(15_000)).status).toBe(201);
    expect(turns.take()).toBe(0);
    expect((await create(17_000)).status).toBe(201);
    expect(turns.take()).toBeGreaterThan(0);
  });
});

test('a request that waits is rejected if its key is revoked; small requests do not wait', async () => {
  let isHeld = false;
  const waiting = Promise.withResolvers<void>();
  const released: (() => void)[] = [];
  const turns = {
    now: () => performance.now(),
    next: (work: () => void) => {
      if (!isHeld) return void setImmediate(work);
      released.push(work);
      waiting.resolve();
    },
  };
  let time = 0;
  const server = await openTestServer(sqlite, {}, undefined, {
    turns: { ...turns, now: () => (isHeld ? time++ * 10 : 0) },
  });
  const management = await server.tenant();
  const rules = [{ priority: 1, container: '/', transform: 'mask', permissions: ['token:create'] }];
  const { id, key } = await server.application(management.key, { permissions: [], rules });
  const create = (length: number) =>
    server.call('POST', '/tokens', { key, body: { container: '/a/', data: 'x'.repeat(length) } });

  expect((await create(70_000)).status).toBe(201);
  isHeld = true;
  const second = create(70_000);
  await waiting.promise;
  expect((await create(10_000)).status).toBe(201);
  await server.call('DELETE', `/applications/${id}`, { key: management.key });
  isHeld = false;
  for (const work of released) work();
  expect((await second).status).toBe(401);
});

describe('the processing limit of an application', () => {
  test('rejects long work with 429 and Retry-After, but no request that revokes access', async () => {
    let time = 0;
    const turns = { now: () => (time += 400), next: (work: () => void) => void setImmediate(work) };
    const env = { SALLYPORT_PROCESSING_PER_APPLICATION: '100' };
    const server = await openTestServer(sqlite, env, undefined, { turns });
    const { key } = await server.tenant();
    const web = await server.application(key, { type: 'public', permissions: ['token:read'] });
    const victim = await server.application(key, {
      permissions: builtIn.filter((name) => name !== 'token:use'),
    });
    const session = (await server.call('POST', '/sessions', { key: web.key })).body;
    const list = () => server.call('GET', '/applications', { key });
    let last = await list();
    for (let tries = 0; last.status === 200 && tries < 20; tries++) last = await list();
    expect([last.status, last.body.code]).toEqual([429, 'too_many_requests']);
    expect(last.body.detail).toContain('milliseconds of long computations');
    expect(Number(last.headers.get('retry-after'))).toBeGreaterThan(0);

    const conditions = [{ attribute: 'id', operator: 'equals', value: 'x'.repeat(400) }];
    const rule = { priority: 1, transform: 'mask', permissions: ['token:read'], conditions };
    const rules = Array.from({ length: 50 }, (_, at) => ({ ...rule, priority: at + 1 }));
    const body = { nonce: session.nonce, rules };
    expect((await server.call('POST', '/sessions/authorize', { key, body })).status).toBe(204);
    expect((await server.call('POST', `/applications/${victim.id}/quarantine`, { key })).status).toBe(200);
    expect((await server.call('POST', `/applications/${victim.id}/regenerate`, { key })).status).toBe(200);
    expect((await server.call('DELETE', `/applications/${victim.id}`, { key })).status).toBe(204);
    server.clock.advance(60_000);
    expect((await list()).status).toBe(200);
  });
});
