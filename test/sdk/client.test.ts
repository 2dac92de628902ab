import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { getEventListeners } from 'node:events';
import {
  AuthenticationError,
  ConflictError,
  ConnectionError,
  NotFoundError,
  PermissionError,
  RateLimitError,
  Sallyport,
  TimeoutError,
  ValidationError,
} from '../../sdk/src/sallyport.ts';
import { databases, openTestServer, type TestServer } from '../support/test-server.ts';

const [[, sqlite]] = databases as [(typeof databases)[0]];

describe('the SDK', () => {
  let world: TestServer;
  beforeAll(async () => {
    world = await openTestServer(sqlite);
  });
  afterAll(() => world.close());

  const client = async () => new Sallyport({ url: world.url, key: (await world.tenant()).key });
  const thrown = (promise: Promise<unknown>) =>
    promise.then(
      () => undefined,
      (error) => error,
    );

  test('does every operation on Applications', async () => {
    const admin = await client();
    const made = await admin.applications.create({
      name: 'one',
      type: 'private',
      permissions: ['application:read'],
    });
    const own = new Sallyport({ url: world.url, key: made.key });
    expect((await own.applications.own()).id).toBe(made.id);
    expect((await admin.applications.get(made.id)).name).toBe('one');
    const updated = await admin.applications.update(made.id, { name: 'two', permissions: ['token:read'] });
    expect(updated.name).toBe('two');
    const { key } = await admin.applications.regenerate(made.id);
    expect(key).not.toBe(made.key);
    expect(await thrown(own.applications.own())).toBeInstanceOf(AuthenticationError);
    expect(await admin.applications.delete(made.id)).toBeUndefined();
    expect(await thrown(admin.applications.get(made.id))).toBeInstanceOf(NotFoundError);
  });

  test('knows its tenant', async () => {
    expect(await (await client()).tenant()).toMatchObject({ name: 'test', applications: 1 });
  });

  test('changes the key of an Application without a gap', async () => {
    const admin = await client();
    const made = await admin.applications.create({
      name: 'x',
      type: 'private',
      permissions: ['application:read'],
    });
    const added = await admin.applications.createKey(made.id);
    const [newer, older] = await admin.applications.keys(made.id);
    expect(newer?.ending).toBe(added.key.slice(-4));
    const [before, after] = [made.key, added.key].map((key) => new Sallyport({ url: world.url, key }));
    expect((await before!.applications.own()).id).toBe(made.id);
    expect(await admin.applications.deleteKey(made.id, older!.id)).toBeUndefined();
    expect(await thrown(before!.applications.own())).toBeInstanceOf(AuthenticationError);
    expect((await after!.applications.own()).id).toBe(made.id);
  });

  test.each(['', '.', '..', undefined as unknown as string])(
    'sends nothing for %j, which is no id but would name another path',
    async (id) => {
      const admin = await client();
      const made = await admin.applications.create({ name: 'x', type: 'private', permissions: ['mine:x'] });
      for (const call of [
        admin.applications.deleteKey(made.id, id),
        admin.applications.get(id),
        admin.tokens.get(id),
        admin.sessions.end(id),
      ])
        expect(await thrown(call)).toMatchObject({ message: expect.stringContaining('is not an id') });
      expect((await admin.applications.get(made.id)).id).toBe(made.id);
    },
  );

  test('goes through every page without being told', async () => {
    const admin = await client();
    for (let i = 0; i < 7; i++)
      await admin.tokens.create({ id: `t-${i}`, data: i, metadata: { even: String(i % 2 === 0) } });
    const ids: string[] = [];
    for await (const { id } of admin.tokens.all({ size: 2 })) ids.push(id);
    expect(ids).toEqual(['t-6', 't-5', 't-4', 't-3', 't-2', 't-1', 't-0']);
    const { data } = await admin.tokens.list({ metadata: { even: 'true' }, id: ['t-0', 't-1'] });
    expect(data.map(({ id }) => id)).toEqual(['t-0']);
    const logged: string[] = [];
    for await (const { operation } of admin.logs.all({ size: 3 })) logged.push(operation);
    expect(logged).toEqual(Array(7).fill('token.create'));
  });

  test('opens both doors and decides', async () => {
    const admin = await client();
    const web = await admin.applications.create({
      name: 'web',
      type: 'public',
      permissions: ['token:create'],
    });
    const { session_key, nonce } = await new Sallyport({ url: world.url, key: web.key }).sessions.create();
    const browser = new Sallyport({ url: world.url, key: session_key });
    expect(await thrown(browser.tokens.list())).toBeInstanceOf(PermissionError);
    await admin.sessions.authorize({ nonce, permissions: ['token:read'] });
    expect((await browser.tokens.list()).data).toEqual([]);
    expect(await thrown(admin.sessions.authorize({ nonce, permissions: ['token:read'] }))).toBeInstanceOf(
      ConflictError,
    );
    const ask = { credential: session_key, permission: 'token:read' };
    expect((await admin.decide({ ...ask, resource: { container: '/a/' } })).allowed).toBe(true);
    expect((await admin.decideAll({ ...ask, resources: [{}, { id: 'x1' }] })).decisions).toHaveLength(2);
    expect((await admin.permissions()).map(({ name }) => name)).toContain('token:read');
  });

  test('throws problems as classes with the problem inside', async () => {
    const admin = await client();
    const error = await thrown(admin.applications.create({ name: '', type: 'private' }));
    expect(error).toBeInstanceOf(ValidationError);
    expect(error.errors).toHaveProperty('name');
    expect(error.requestId).toBe(error.problem.request_id);
    expect(error.status).toBe(400);
    const named = await thrown(admin.tokens.get('none', { requestId: 'find-me' }));
    expect(named.requestId).toBe('find-me');
  });

  test('gives up after its time, at once when told to, and says when nobody is there', async () => {
    const silent = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () => new Promise<Response>(() => {}),
    });
    const waiting = new Sallyport({ url: `http://127.0.0.1:${silent.port}`, timeout: 20, retries: 0 });
    expect(await thrown(waiting.permissions())).toBeInstanceOf(TimeoutError);
    const given = AbortSignal.abort(new Error('enough'));
    expect((await thrown(waiting.permissions({ signal: given }))).message).toBe('enough');
    await silent.stop(true);
    const nobody = new Sallyport({ url: `http://127.0.0.1:${silent.port}`, retries: 0 });
    expect(await thrown(nobody.permissions())).toBeInstanceOf(ConnectionError);
  });

  test('waits no longer for its key than for an answer, and not at all once told to give up', async () => {
    const never = () => new Promise<string>(() => {});
    const keyless = new Sallyport({ url: world.url, key: never, timeout: 20 });
    expect(await thrown(keyless.tenant())).toMatchObject({
      name: 'TimeoutError',
      message: 'no key within 20 ms',
    });
    const signal = AbortSignal.timeout(20);
    const given = await thrown(keyless.tenant({ timeout: 15_000, signal }));
    expect(given).toBe(signal.reason);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('does not carry the key to wherever an answer points', async () => {
    const asked: string[] = [];
    const stray = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: (request) => {
        asked.push(new URL(request.url).pathname);
        return Response.redirect('/elsewhere', 307);
      },
    });
    const lost = new Sallyport({ url: `http://127.0.0.1:${stray.port}`, key: 'secret', retries: 0 });
    const error = await thrown(lost.applications.own());
    await stray.stop(true);
    expect(error).toBeInstanceOf(ConnectionError);
    expect(asked).toEqual(['/applications/key']);
  });

  /** Stands before the service: the first answers to get through are lost on their way back. */
  function losing(answers: number) {
    let lost = 0;
    return Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const { pathname, search } = new URL(request.url);
        const answer = await fetch(world.url + pathname + search, {
          method: request.method,
          headers: request.headers,
          ...(request.method !== 'GET' && { body: await request.text() }),
        });
        if (lost++ < answers) return new Response('gone', { status: 502 });
        return answer;
      },
    });
  }

  /** Stands before the service, and turns the first request away until so many seconds later. */
  function busy(seconds: number) {
    const asked: number[] = [];
    const door = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: (request) => {
        asked.push(performance.now());
        if (asked.length > 1)
          return fetch(world.url + new URL(request.url).pathname, { headers: request.headers });
        const problem = { code: 'too_many_requests', status: 429, detail: 'later', request_id: 'x' };
        return Response.json(problem, { status: 429, headers: { 'Retry-After': String(seconds) } });
      },
    });
    return { door, asked, client: new Sallyport({ url: `http://127.0.0.1:${door.port}` }) };
  }

  test('waits as long as the service asks it to', async () => {
    const { door, asked, client: patient } = busy(1);
    expect((await patient.permissions()).length).toBeGreaterThan(5);
    await door.stop(true);
    expect((asked[1] as number) - (asked[0] as number)).toBeGreaterThanOrEqual(990);
  });

  test('leaves no listener on the signal of a caller that it has waited for', async () => {
    const { door, client: patient } = busy(0);
    const { signal } = new AbortController();
    await patient.permissions({ signal });
    await door.stop(true);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('is woken from its pause by the signal', async () => {
    const { door, client: patient } = busy(20);
    const call = thrown(patient.permissions({ signal: AbortSignal.timeout(50) }));
    expect(await call).toMatchObject({ name: 'TimeoutError' });
    await door.stop(true);
  });

  test('does not wait longer than half a minute, and says how long it would have been', async () => {
    const { door, asked, client: hasty } = busy(31);
    const error = await thrown(hasty.permissions());
    await door.stop(true);
    expect(error).toBeInstanceOf(RateLimitError);
    expect([error.retryAfter, asked.length]).toEqual([31_000, 1]);
  });

  test('sends a change again when its answer was lost, and it happens once', async () => {
    const { key } = await world.tenant();
    const between = losing(1);
    const admin = new Sallyport({ url: `http://127.0.0.1:${between.port}`, key });
    const made = await admin.applications.create({
      name: 'once',
      type: 'private',
      permissions: ['token:read'],
    });
    await between.stop(true);
    const direct = new Sallyport({ url: world.url, key });
    const { pagination, data } = await direct.applications.list({ name: 'once' });
    expect(pagination.total_items).toBe(1);
    expect(data[0]?.id).toBe(made.id);
  });

  test('a delete that is sent again and finds nothing has happened', async () => {
    const { key } = await world.tenant();
    const direct = new Sallyport({ url: world.url, key });
    const { id } = await direct.tokens.create({ data: 'x' });
    const between = losing(1);
    const admin = new Sallyport({ url: `http://127.0.0.1:${between.port}`, key });
    expect(await admin.tokens.delete(id)).toBeUndefined();
    await between.stop(true);
    expect(await thrown(direct.tokens.get(id))).toBeInstanceOf(NotFoundError);
  });

  test('a delete that is answered at once says that there is nothing, and so does a read that is sent again', async () => {
    const { key } = await world.tenant();
    const direct = new Sallyport({ url: world.url, key });
    expect(await thrown(direct.tokens.delete('nobody'))).toBeInstanceOf(NotFoundError);
    const between = losing(1);
    const reader = new Sallyport({ url: `http://127.0.0.1:${between.port}`, key });
    expect(await thrown(reader.tokens.get('nobody'))).toBeInstanceOf(NotFoundError);
    await between.stop(true);
  });

  test('a delete at a path that the service does not have fails, lost answer or not', async () => {
    const { key } = await world.tenant();
    const between = losing(1);
    const lost = new Sallyport({ url: `http://127.0.0.1:${between.port}/elsewhere`, key });
    expect(await thrown(lost.tokens.delete('nobody'))).toMatchObject({ code: 'path_unknown' });
    await between.stop(true);
  });

  test('names what creates or changes something, and nothing else', async () => {
    const named: boolean[] = [];
    const listening = new Sallyport({
      url: 'http://127.0.0.1:9',
      fetch: (async (_: string, { headers }: { headers: Record<string, string> }) => {
        named.push(headers['Idempotency-Key'] !== undefined);
        return Response.json({});
      }) as unknown as typeof fetch,
    });
    await listening.tokens.create({ data: 1 });
    await listening.tokens.update('some', { data: 2 });
    await listening.applications.regenerate('some');
    await listening.sessions.authorize({ nonce: 'n' });
    expect(named).toEqual([true, true, true, true]);
    named.length = 0;
    await listening.tokens.list();
    await listening.tokens.delete('some');
    await listening.sessions.create();
    await listening.decide({ credential: 'c', permission: 'p:q' });
    expect(named).toEqual([false, false, false, false]);
  });
});
