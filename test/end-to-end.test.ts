/** The whole flow over real processes: a service, a shop backend with a private key, browsers with a public key. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { settingList } from '../src/config/settings.ts';
import { temporaryFolder } from './support/cleanup.ts';
import { type ApiResponse, databases, generousTimeout, testMasterKey } from './support/test-server.ts';

interface Process {
  /** The first message of the process. */
  readonly firstMessage: string;
  /** Sends a message and returns the reply. */
  send<T>(message: unknown): Promise<T>;
  stop(): Promise<void>;
}

/** Starts a script that sends one message when it is ready, and one reply per message. */
async function startProcess(script: string, env: Record<string, string>): Promise<Process> {
  let reply = Promise.withResolvers<unknown>();
  const unset = Object.fromEntries(settingList.map(({ variable }) => [variable, undefined]));
  const child = Bun.spawn(
    [process.execPath, '--no-env-file', join(import.meta.dirname, 'support/end-to-end', script)],
    {
      env: { ...process.env, ...unset, SALLYPORT_DATABASE_TIMEOUT: String(generousTimeout), ...env },
      stdio: ['ignore', 'ignore', 'inherit'],
      ipc: (message) => reply.resolve(message),
      onExit: () => reply.reject(new Error(`${script} exited`)),
    },
  );
  const firstMessage = (await reply.promise) as string;
  return {
    firstMessage,
    send: async <T>(message: unknown) => {
      reply = Promise.withResolvers();
      child.send(message);
      return (await reply.promise) as T;
    },
    stop: async () => {
      reply.promise.catch(() => {});
      child.disconnect();
      await child.exited;
    },
  };
}

const number = '4242424242424242';
const masked = { number: 'XXXXXXXXXXXX4242' };

describe.each(databases)('a card in a shop, on %s:', (_, database) => {
  let folder: string;
  let service: Process;
  let backend: Process;
  let ada: Process;
  let eve: Process;
  let management: string;
  let helpDesk: string;
  let card: string;
  let evesCard: string;

  const call = async (key: string, method: string, path: string, body?: object): Promise<ApiResponse> => {
    const headers = { 'SVC-API-KEY': key, 'Content-Type': 'application/json' };
    const request = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const response = await fetch(service.firstMessage + path, request);
    return { status: response.status, headers: response.headers, body: await response.json() };
  };
  const createApplication = async (fields: object) =>
    (await call(management, 'POST', '/applications', fields)).body.key as string;
  const rule = (container: string, transform: string, permissions: string[]) => ({
    priority: 1,
    container,
    transform,
    permissions,
  });
  /** Runs one step of support/end-to-end/browser.ts. */
  const run = (browser: Process, step: string, argument?: string) =>
    browser.send<ApiResponse>([step, argument]);
  /** Moves the service's clock and returns its time. */
  const advance = async (milliseconds: number) => Date.parse(await service.send<string>(milliseconds));

  beforeAll(async () => {
    folder = temporaryFolder();
    service = await startProcess('service.ts', {
      PORT: '0',
      SALLYPORT_DATA_DIR: folder,
      SALLYPORT_DRAIN: '0',
      DATABASE_URL: await database.createEmpty(folder),
      SALLYPORT_MASTER_KEY: testMasterKey,
    });
    management = readFileSync(join(folder, 'management.key'), 'utf8').trim();
    const publicKey = await createApplication({
      name: 'shop page',
      type: 'public',
      rules: [rule('/incoming/', 'redact', ['token:create'])],
    });
    const privateKey = await createApplication({
      name: 'shop backend',
      type: 'private',
      permissions: ['session:authorize'],
      rules: [
        rule('/customers/', 'reveal', ['token:read', 'token:update']),
        rule('/incoming/', 'reveal', ['token:update']),
      ],
    });
    helpDesk = await createApplication({
      name: 'help desk',
      type: 'private',
      rules: [rule('/customers/', 'redact', ['token:read'])],
    });
    backend = await startProcess('backend.ts', { SALLYPORT: service.firstMessage, PRIVATE_KEY: privateKey });
    const page = { SALLYPORT: service.firstMessage, SHOP: backend.firstMessage, PUBLIC_KEY: publicKey };
    ada = await startProcess('browser.ts', { ...page, CUSTOMER: '42' });
    eve = await startProcess('browser.ts', { ...page, CUSTOMER: '43' });
  });
  afterAll(async () => {
    for (const started of [eve, ada, backend, service]) await started?.stop();
  });

  test('a page stores it and cannot read it back', async () => {
    const created = await run(ada, 'storeCard', number);
    expect(created.status).toBe(201);
    expect(created.body).not.toHaveProperty('data');
    card = created.body.id;
    expect(await run(ada, 'readWithPublicKey', card)).toMatchObject({
      status: 403,
      body: { code: 'permission_missing' },
    });
    expect((await run(ada, 'saveCard', card)).body).toMatchObject({ container: '/customers/42/' });
    evesCard = (await run(eve, 'storeCard', '5555555555554444')).body.id;
    expect((await run(eve, 'saveCard', evesCard)).status).toBe(200);
  });

  test('a pending session cannot read it', async () => {
    const created = await run(ada, 'createSession');
    expect(created.status).toBe(201);
    expect(Date.parse(created.body.expires_at) - (await advance(0))).toBe(180_000);
    const denied = await run(ada, 'readCard', card);
    expect(denied.status).toBe(403);
    expect(denied.body.detail).toBe(
      'You need the permission `token:read`: this session has not been authorized yet.',
    );
  });

  test('it is redacted for the help desk, masked for its customer and revealed to the backend', async () => {
    expect((await run(ada, 'authorizeSession')).status).toBe(204);
    expect((await call(helpDesk, 'GET', `/tokens/${card}`)).body).not.toHaveProperty('data');
    expect((await run(ada, 'readCard', card)).body.data).toEqual(masked);
    expect((await run(ada, 'pay', card)).body).toEqual({ charged: true });
  });

  test('a nonce works once', async () => {
    const again = await run(ada, 'authorizeSession');
    expect(again).toMatchObject({ status: 409, body: { code: 'nonce_used' } });
    expect((await run(ada, 'readCard', card)).status).toBe(200);
  });

  test('a session sees no card of another customer, by id or in a list', async () => {
    const denied = await run(ada, 'readCard', evesCard);
    expect(denied.status).toBe(403);
    expect(denied.body.detail).toBe('You cannot use `token:read` on this token.');
    const { body } = await run(ada, 'listCards');
    expect(body.data.map(({ id }: { id: string }) => id)).toEqual([card]);
    expect(body.pagination.total_items).toBe(1);
    await run(eve, 'createSession');
    expect((await run(eve, 'authorizeSession')).status).toBe(204);
    expect((await run(eve, 'readCard', card)).status).toBe(403);
    expect((await run(eve, 'readCard', evesCard)).body.data).toEqual({ number: 'XXXXXXXXXXXX4444' });
  });

  test('a session expires after three minutes, to the millisecond', async () => {
    const created = await run(ada, 'createSession');
    expect((await run(ada, 'authorizeSession')).status).toBe(204);
    const remaining = Date.parse(created.body.expires_at) - (await advance(0));
    await advance(remaining - 1);
    expect((await run(ada, 'readCard', card)).body.data).toEqual(masked);
    await advance(1);
    expect(await run(ada, 'readCard', card)).toMatchObject({
      status: 401,
      body: { code: 'unauthenticated' },
    });
    expect((await run(eve, 'readCard', evesCard)).status).toBe(401);
    expect((await run(ada, 'pay', card)).body).toEqual({ charged: true });
    expect((await run(ada, 'createSession')).status).toBe(201);
  });
});
