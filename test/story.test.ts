/** The whole story, told by real processes: a service, a backend with a private key, browsers with a public one. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { settingList } from '../src/config.ts';
import { type ApiResponse, databases, generousTimeout, testMasterKey } from './support/test-server.ts';

interface Actor {
  /** The first thing that it said. */
  readonly hello: string;
  tell<T>(message: unknown): Promise<T>;
  leave(): Promise<void>;
}

/** A process that says hello when it is ready, and answers each message with one. */
async function enter(script: string, env: Record<string, string>): Promise<Actor> {
  let heard = Promise.withResolvers<unknown>();
  const unset = Object.fromEntries(settingList.map(({ variable }) => [variable, undefined]));
  const child = Bun.spawn(
    [process.execPath, '--no-env-file', join(import.meta.dirname, 'support/story', script)],
    {
      env: { ...process.env, ...unset, SALLYPORT_DATABASE_TIMEOUT: String(generousTimeout), ...env },
      stdio: ['ignore', 'ignore', 'inherit'],
      ipc: (message) => heard.resolve(message),
      onExit: () => heard.reject(new Error(`${script} has left`)),
    },
  );
  const hello = (await heard.promise) as string;
  return {
    hello,
    tell: async <T>(message: unknown) => {
      heard = Promise.withResolvers();
      child.send(message);
      return (await heard.promise) as T;
    },
    leave: async () => {
      heard.promise.catch(() => {});
      child.disconnect();
      await child.exited;
    },
  };
}

const number = '4242424242424242';
const masked = { number: 'XXXXXXXXXXXX4242' };
const read = ['token:read'];

describe.each(databases)('a card, on %s', (_, database) => {
  let folder: string;
  let service: Actor;
  let backend: Actor;
  let ada: Actor;
  let eve: Actor;
  let management: string;
  let desk: string;
  /** The id of Ada's card, once she has typed it in. */
  let card: string;
  let evesCard: string;

  const call = async (key: string, method: string, path: string, body?: object): Promise<ApiResponse> => {
    const headers = { 'SVC-API-KEY': key, 'Content-Type': 'application/json' };
    const request = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const response = await fetch(service.hello + path, request);
    return { status: response.status, headers: response.headers, body: await response.json() };
  };
  const application = async (fields: object) =>
    (await call(management, 'POST', '/applications', fields)).body.key as string;
  const rule = (container: string, transform: string, permissions: string[]) => ({
    priority: 1,
    container,
    transform,
    permissions,
  });
  const does = (who: Actor, step: string, id?: string) => who.tell<ApiResponse>([step, id]);

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sallyport-story-'));
    service = await enter('service.ts', {
      PORT: '0',
      SALLYPORT_DATA_DIR: folder,
      SALLYPORT_DRAIN: '0',
      DATABASE_URL: await database.createEmpty(folder),
      SALLYPORT_MASTER_KEY: testMasterKey,
    });
    management = readFileSync(join(folder, 'management.key'), 'utf8').trim();
    const publicKey = await application({
      name: 'shop page',
      type: 'public',
      rules: [rule('/incoming/', 'redact', ['token:create'])],
    });
    const privateKey = await application({
      name: 'shop backend',
      type: 'private',
      permissions: ['session:authorize'],
      rules: [
        rule('/customers/', 'reveal', ['token:read', 'token:update']),
        rule('/incoming/', 'reveal', ['token:update']),
      ],
    });
    desk = await application({
      name: 'help desk',
      type: 'private',
      rules: [rule('/customers/', 'redact', read)],
    });
    backend = await enter('backend.ts', { SALLYPORT: service.hello, PRIVATE_KEY: privateKey });
    const page = { SALLYPORT: service.hello, SHOP: backend.hello, PUBLIC_KEY: publicKey };
    ada = await enter('browser.ts', { ...page, CUSTOMER: '42' });
    eve = await enter('browser.ts', { ...page, CUSTOMER: '43' });
  });
  afterAll(async () => {
    for (const actor of [eve, ada, backend, service]) await actor?.leave();
    rmSync(folder, { recursive: true, force: true });
  });

  test('is collected in a browser that may put it there and never see it again', async () => {
    const collected = await does(ada, 'collect', number);
    expect(collected.status).toBe(201);
    expect(collected.body).not.toHaveProperty('data');
    card = collected.body.id;
    const peeked = await does(ada, 'peek', card);
    expect(peeked.status).toBe(403);
    expect(peeked.body.detail).toBe(
      'You need the permission `token:read`: this application does not have token:read in its permissions or rules.',
    );
    expect((await does(ada, 'keep', card)).body).toMatchObject({ container: '/customers/42/' });
    evesCard = (await does(eve, 'collect', '5555555555554444')).body.id;
    expect((await does(eve, 'keep', evesCard)).status).toBe(200);
  });

  test('is out of reach of a Session that nobody has let in', async () => {
    const opened = await does(ada, 'open');
    expect(opened.status).toBe(201);
    expect(Date.parse(opened.body.expires_at) - Date.parse(await service.tell<string>(0))).toBe(180_000);
    const refused = await does(ada, 'look', card);
    expect(refused.status).toBe(403);
    expect(refused.body.detail).toBe(
      'You need the permission `token:read`: this session has not been authorized yet.',
    );
  });

  test('is redacted, masked and revealed: one Token, three who read it', async () => {
    expect((await does(ada, 'enter')).status).toBe(204);
    expect((await call(desk, 'GET', `/tokens/${card}`)).body).not.toHaveProperty('data');
    expect((await does(ada, 'look', card)).body.data).toEqual(masked);
    expect((await does(ada, 'pay', card)).body).toEqual({ charged: true });
  });

  test('is let in for once: the nonce is spent', async () => {
    const again = await does(ada, 'enter');
    expect(again).toMatchObject({ status: 409, body: { code: 'nonce_used' } });
    expect((await does(ada, 'look', card)).status).toBe(200);
  });

  test('of another customer is refused with the reason, and no list shows it', async () => {
    const refused = await does(ada, 'look', evesCard);
    expect(refused.status).toBe(403);
    expect(refused.body.detail).toBe('You cannot use `token:read` on this token.');
    const { body } = await does(ada, 'list');
    expect(body.data.map(({ id }: { id: string }) => id)).toEqual([card]);
    expect(body.pagination.total_items).toBe(1);
    await does(eve, 'open');
    expect((await does(eve, 'enter')).status).toBe(204);
    expect((await does(eve, 'look', card)).status).toBe(403);
    expect((await does(eve, 'look', evesCard)).body.data).toEqual({ number: 'XXXXXXXXXXXX4444' });
  });

  test('is there after three minutes, and the Session is not', async () => {
    const opened = await does(ada, 'open');
    expect((await does(ada, 'enter')).status).toBe(204);
    const left = Date.parse(opened.body.expires_at) - Date.parse(await service.tell<string>(0));
    await service.tell(left - 1);
    expect((await does(ada, 'look', card)).body.data).toEqual(masked);
    await service.tell(1);
    expect(await does(ada, 'look', card)).toMatchObject({ status: 401, body: { code: 'unauthenticated' } });
    expect((await does(eve, 'look', evesCard)).status).toBe(401);
    expect((await does(ada, 'pay', card)).body).toEqual({ charged: true });
    expect((await does(ada, 'open')).status).toBe(201);
  });
});
