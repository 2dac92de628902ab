/** `logs who-read` and `logs seen-by`: who has received which plaintext. */
import { describe, expect, test } from 'bun:test';
import { mkdirSync } from 'node:fs';
import { formatEntry } from '../../../src/cli/terminal/tail.ts';
import { openCli } from '../../support/cli.ts';
import { openTestServer, sqlite, startTime } from '../../support/test-server.ts';

const time = (seconds: number) => new Date(startTime + 1000 * seconds).toISOString();

describe('questions about disclosures', async () => {
  const server = await openTestServer(sqlite);
  const { key } = await server.tenant();
  const create = (id: string, container: string) =>
    server.call('POST', '/tokens', { key, body: { id, container, data: 'secret', mask: '***' } });
  for (const id of ['card-1', 'card-2']) await create(id, '/cards/');
  await create('note-1', '/notes/');
  const reveal = (container: string) => [
    { priority: 1, container, permissions: ['token:read'], transform: 'reveal' },
  ];
  const desk: { id: string; key: string } = await server.application(key, {
    permissions: ['token:read'],
    rules: reveal('/cards/'),
  });
  const auditor: { id: string; key: string } = await server.application(key, {
    permissions: ['log:read'],
    rules: reveal('/cards/'),
  });
  const read = async (who: { key: string }, path: string) => {
    server.clock.advance(1000);
    expect((await server.call('GET', path, { key: who.key })).status).toBe(200);
  };
  await read(desk, '/tokens/card-1');
  await read(desk, '/tokens/note-1');
  await read(desk, '/tokens');
  await read(auditor, '/tokens/card-1');
  await server.flush();
  const cli = openCli(() => ({ SALLYPORT_URL: server.url, SALLYPORT_KEY: key }));

  test('who-read lists everyone who received the plaintext, latest first', async () => {
    const { body } = await cli.json('logs', 'who-read', 'card-1');
    expect(body.gaps).toEqual([]);
    expect(body.readers).toEqual([
      {
        kind: 'application',
        id: auditor.id,
        application_id: auditor.id,
        ...{ responses: 1, reported: 0 },
        first: time(4),
        last: time(4),
      },
      {
        kind: 'application',
        id: desk.id,
        application_id: desk.id,
        ...{ responses: 2, reported: 0 },
        first: time(1),
        last: time(3),
      },
    ]);
    expect((await cli.json('logs', 'who-read', 'note-1')).body.readers).toEqual([]);
    const { out } = await cli.run('logs', 'who-read', 'card-1', '--since', time(4));
    expect(out.trim().split('\n')).toEqual([
      expect.stringMatching(
        /^KIND +ID +SUBJECT +APPLICATION +AUTHORIZED BY +RESPONSES +REPORTED +FIRST +LAST$/,
      ),
      expect.stringMatching(
        new RegExp(`^application +${auditor.id} +an application +1 +0 +${time(4)} +${time(4)}$`),
      ),
    ]);
  });

  test('seen-by lists the tokens whose plaintext an application received', async () => {
    expect((await cli.json('logs', 'seen-by', desk.id)).body.tokens).toEqual([
      { token: 'card-2', responses: 1, reported: 0, first: time(3), last: time(3) },
      { token: 'card-1', responses: 2, reported: 0, first: time(1), last: time(3) },
    ]);
    expect((await cli.json('logs', 'seen-by', desk.id, '--since', time(4))).body.tokens).toEqual([]);
  });

  test('about lists what a subject has seen, and who has seen the data of a container', async () => {
    const { key } = await server.tenant();
    const [web, reader] = [
      await server.application(key, { type: 'public' }),
      await server.application(key, {
        rules: [{ priority: 1, container: '/customers/', permissions: ['token:read'], transform: 'reveal' }],
      }),
    ];
    for (const customer of ['41', '42']) {
      const body = { id: `card-${customer}`, container: `/customers/${customer}/`, data: 'secret' };
      await server.call('POST', '/tokens', { key, body });
    }
    const { session_key, nonce } = (await server.call('POST', '/sessions', { key: web.key })).body;
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/customers/' }];
    const rules = [{ priority: 1, conditions, permissions: ['token:read'], transform: 'reveal' }];
    const body = { nonce, rules, subject: 'user:42' };
    await server.call('POST', '/sessions/authorize', { key, body });
    await server.call('GET', '/tokens/card-41', { key: session_key });
    await server.call('GET', '/tokens/card-42', { key: reader.key });
    // The entry about both tokens has the container /customers/.
    const list = await server.application(key, {
      rules: [{ priority: 1, container: '/', permissions: ['token:read'], transform: 'reveal' }],
    });
    server.clock.advance(1000);
    await server.call('GET', '/tokens', { key: list.key });
    const own = openCli(() => ({ SALLYPORT_URL: server.url, SALLYPORT_KEY: key }));
    const { body: found } = await own.json('logs', 'about', 'user:42', '--container', '/customers/42/');
    const readers = [
      { id: list.id, responses: 1 },
      { id: reader.id, responses: 1 },
    ];
    expect(found).toMatchObject({ seen: [{ token: 'card-41' }], readers, gaps: [], omissions: [] });
    const { out } = await own.run('logs', 'about', 'user:42', '--container', '/customers/');
    expect(out).toMatch(/^TOKEN .*\ncard-41 .*\n\nKIND +ID +SUBJECT .*\n/);
    expect(out).toMatch(/^session +\S+ +user:42 /m);
    expect((await own.run('logs', 'about', 'user:42')).code).toBe(2);
  });

  test('responses that an application reported are counted as such', async () => {
    const { key } = await server.tenant();
    const rules = [{ priority: 1, container: '/c/', permissions: ['token:read'], transform: 'reveal' }];
    const reader = await server.application(key, { rules });
    await server.call('POST', '/tokens', { key, body: { id: 'c-1', container: '/c/', data: 'x' } });
    await server.call('GET', '/tokens/c-1', { key: reader.key });
    const resource = { id: 'c-1', container: '/c/' };
    const body = { credential: reader.key, permission: 'token:read', resource, record: true };
    await server.call('POST', '/decisions', { key, body });
    const own = openCli(() => ({ SALLYPORT_URL: server.url, SALLYPORT_KEY: key }));
    const counts = [{ responses: 2, reported: 1 }];
    expect((await own.json('logs', 'who-read', 'c-1')).body.readers).toMatchObject(counts);
    expect((await own.json('logs', 'seen-by', reader.id)).body.tokens).toMatchObject(counts);
    const { body: about } = await own.json('logs', 'about', 'user:1', '--container', '/c/');
    expect(about).toMatchObject({
      readers: counts,
      omissions: [expect.stringContaining('decisions that an application recorded')],
    });
  });

  test('tail prints the resource and the decision of a disclosure', async () => {
    const { out } = await cli.run('logs', 'tail', '--token', 'card-1', '--lines', '1');
    expect(out).toMatch(
      / {2}token.read {2}card-1 in \/cards\/ {2}reveal by rule 1 of the application {2}by application /,
    );
  });
});

test('a line counts the ids that an aggregated entry omits, and marks an overflow entry', () => {
  const line = formatEntry({
    ...{ id: '', at: '', operation: 'token.read', result: 'denied', from: {} },
    actor: { kind: 'application', id: 'page' },
    resource: { ids: ['card-1', 'card-2', 'card-3', 'card-4'], container: '/cards/', omitted: 7 },
    ...{ count: 30, overflow: true },
  });
  expect(line).toContain('card-1 card-2 card-3 and 8 more in /cards/');
  expect(line).toEndWith('×30  (different sessions, addresses or containers)');
});

test('a line about a changed setting has the old and the new value', () => {
  const change = (values: object) =>
    formatEntry({
      ...{ id: '', at: '', operation: 'audit.reads', result: 'success', from: {} },
      actor: { kind: 'operator' },
      difference: { SALLYPORT_AUDIT_READS: values },
    });
  expect(change({ from: 'reveal', to: 'off' })).toEndWith('by operator  SALLYPORT_AUDIT_READS reveal → off');
  expect(change({ to: 'all' })).toEndWith('by operator  SALLYPORT_AUDIT_READS all');
});

test('who-read and seen-by warn of reads that were not recorded and of archived entries', async () => {
  const server = await openTestServer(sqlite, { SALLYPORT_AUDIT_READS: 'off' });
  const { key, id: tenant } = await server.tenant();
  const cli = openCli(() => ({ SALLYPORT_URL: server.url, SALLYPORT_KEY: key }));
  for (const id of ['card-1', 'card-2']) {
    await server.call('POST', '/tokens', { key, body: { id, data: 'x' } });
    await server.app.maintenance.audit.seal();
    server.clock.advance(1000);
  }
  await server.flush();
  const options = {
    folder: cli.path('archive'),
    tenantId: tenant,
    now: startTime + 2000,
    before: startTime + 1,
  };
  mkdirSync(options.folder);
  await server.app.maintenance.audit.archive(options);
  const { err } = await cli.run('logs', 'who-read', 'card-1');
  expect(err).toMatch(
    /warning: entries up to 2026-11-15T12:00:0[1-5]\.000Z were archived and are not included/,
  );
  expect(err).toContain(`warning: reads were not recorded from ${time(0)} to now (SALLYPORT_AUDIT_READS)`);
  const { body } = await cli.json('logs', 'seen-by', tenant, '--since', time(9));
  expect(body).toEqual({
    tokens: [],
    gaps: [{ reason: 'reads_not_recorded', transforms: ['reveal'], from: time(0) }],
  });
});
