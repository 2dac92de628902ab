/** `logs who-read` and `logs seen-by`: who has received which plaintext. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { type Cli, openCli } from '../../support/cli.ts';
import { openTestServer, sqlite, startTime, type TestServer } from '../../support/test-server.ts';

const time = (seconds: number) => new Date(startTime + 1000 * seconds).toISOString();

describe('questions about disclosures', () => {
  let server: TestServer;
  let cli: Cli;
  let desk: { id: string; key: string };
  let auditor: { id: string; key: string };
  beforeAll(async () => {
    server = await openTestServer(sqlite);
    const { key } = await server.tenant();
    const create = (id: string, container: string) =>
      server.call('POST', '/tokens', { key, body: { id, container, data: 'secret', mask: '***' } });
    for (const id of ['card-1', 'card-2']) await create(id, '/cards/');
    await create('note-1', '/notes/');
    const reveal = (container: string) => [
      { priority: 1, container, permissions: ['token:read'], transform: 'reveal' },
    ];
    desk = await server.application(key, { permissions: ['token:read'], rules: reveal('/cards/') });
    auditor = await server.application(key, { permissions: ['log:read'], rules: reveal('/cards/') });
    const read = async (who: { key: string }, path: string) => {
      server.clock.advance(1000);
      expect((await server.call('GET', path, { key: who.key })).status).toBe(200);
    };
    await read(desk, '/tokens/card-1');
    await read(desk, '/tokens/note-1');
    await read(desk, '/tokens');
    await read(auditor, '/tokens/card-1');
    await server.flush();
    cli = openCli(() => ({ SALLYPORT_URL: server.url, SALLYPORT_KEY: key }));
  });
  afterAll(async () => {
    await server.close();
    cli.remove();
  });

  test('who-read lists everyone who received the plaintext, latest first', async () => {
    const { body } = await cli.json('logs', 'who-read', 'card-1');
    expect(body).toEqual([
      {
        kind: 'application',
        id: auditor.id,
        application_id: auditor.id,
        responses: 1,
        first: time(4),
        last: time(4),
      },
      {
        kind: 'application',
        id: desk.id,
        application_id: desk.id,
        responses: 2,
        first: time(1),
        last: time(3),
      },
    ]);
    expect((await cli.json('logs', 'who-read', 'note-1')).body).toEqual([]);
    const { out } = await cli.run('logs', 'who-read', 'card-1', '--since', time(4));
    expect(out.trim().split('\n')).toEqual([
      expect.stringMatching(/^KIND +ID +APPLICATION +AUTHORIZED BY +RESPONSES +FIRST +LAST$/),
      expect.stringMatching(
        new RegExp(`^application +${auditor.id} +an application +1 +${time(4)} +${time(4)}$`),
      ),
    ]);
  });

  test('seen-by lists the tokens whose plaintext an application received', async () => {
    expect((await cli.json('logs', 'seen-by', desk.id)).body).toEqual([
      { token: 'card-2', responses: 1, first: time(3), last: time(3) },
      { token: 'card-1', responses: 2, first: time(1), last: time(3) },
    ]);
    expect((await cli.json('logs', 'seen-by', desk.id, '--since', time(4))).body).toEqual([]);
  });

  test('tail prints the resource and the decision of a disclosure', async () => {
    const { out } = await cli.run('logs', 'tail', '--token', 'card-1', '--lines', '1');
    expect(out).toMatch(
      / {2}token.read {2}card-1 in \/cards\/ {2}reveal by rule 1 of the application {2}by application /,
    );
  });
});
