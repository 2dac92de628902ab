/** `logs` shows the names of applications. */
import { expect, test } from 'bun:test';
import { ada, signInAs } from '../../support/people.ts';
import { type ApiShell, apiShell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const server = await openTestServer(sqlite);
const { key } = await server.tenant();
const shell: ApiShell = apiShell(server.url, key);
const reveal = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] };
const backend: { id: string; key: string } = await server.application(key, {
  name: 'the backend',
  rules: [reveal],
});
const page = await server.application(key, { name: 'the page', type: 'public' });
await server.call('POST', '/tokens', { key, body: { id: 'card-1', data: 'x' } });
await server.call('GET', '/tokens/card-1', { key: backend.key });
const { body: session } = await server.call('POST', '/sessions', { key: page.key });
const conditions = [{ attribute: 'id', operator: 'equals', value: 'card-1' }];
const rules = [{ priority: 1, transform: 'reveal', permissions: ['token:read'], conditions }];
const body = { nonce: session.nonce, rules };
await server.call('POST', '/sessions/authorize', { key: backend.key, body });
await server.call('GET', '/tokens/card-1', { key: session.session_key });
await server.flush();

test('tail names the applications that act and that are changed; --json has ids', async () => {
  const { code, out, err } = await shell.call(['logs', 'tail', '--lines', '100']);
  expect([code, err]).toEqual([0, '']);
  expect(out).toMatch(/application\.create {2}application the backend {2}by application .*management key/);
  expect(out).toMatch(/token\.read .*by application the backend/);
  expect(out).toMatch(/token\.read .*by session [0-9a-f-]{36} of the page/);
  expect(out).not.toContain(backend.id);
  const json = await shell.call(['logs', 'tail', '--lines', '100', '--json']);
  expect(json.out).toContain(backend.id);
  expect(json.out).not.toContain('"name":"the page"');
});

test('who-read names applications and authorizers', async () => {
  const { out } = await shell.call(['logs', 'who-read', 'card-1']);
  const rows = out
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ {2,}/));
  expect(rows.find(([kind]) => kind === 'session')?.slice(2, 4)).toEqual(['the page', 'the backend']);
  expect(rows.find(([kind]) => kind === 'application')?.slice(1, 3)).toEqual([backend.id, 'the backend']);
});

test('tail lists what a person changed, and who-read names people', async () => {
  const signOut = signInAs(server, backend.key, ada);
  await server.call('GET', '/tokens/card-1', { key: backend.key });
  signOut();
  const desk = await server.application(key, {
    type: 'management',
    permissions: ['application:create', 'token:read'],
  });
  signInAs(server, desk.key, ada);
  await server.application(desk.key, { name: 'made by ada' });
  await server.call('DELETE', '/tokens/card-1', { key: desk.key });
  await server.flush();
  const period = ['--from', '2026-11-01T00:00:00Z', '--to', '2026-12-01T00:00:00Z'];
  const changed = await shell.call(['logs', 'tail', '--person', ada.email, '--changes', ...period]);
  expect(changed.out.trimEnd().split('\n')).toEqual([
    expect.stringContaining(
      'application.create  application made by ada  by Ada Lovelace <ada@example.com> as application an application',
    ),
  ]);
  expect((await shell.call(['logs', 'tail', '--person', ada.subject])).out.split('\n')).toHaveLength(4);
  const { out } = await shell.call(['logs', 'who-read', 'card-1']);
  const readers = out.trimEnd().split('\n');
  expect(readers.filter((line) => line.startsWith('application'))).toHaveLength(2);
  expect(readers.filter((line) => line.includes('Ada Lovelace <ada@example.com>'))).toHaveLength(1);
});

test('without application:read, and for deleted applications, lines have ids', async () => {
  const auditor = await server.application(key, { permissions: ['log:read'] });
  const { code, out } = await shell.call(['logs', 'tail', '--lines', '100'], {
    env: { SALLYPORT_KEY: auditor.key },
  });
  expect([code, out]).toEqual([0, expect.stringContaining(`by application ${backend.id}`)]);
  await server.call('DELETE', `/applications/${backend.id}`, { key });
  const after = await shell.call(['logs', 'tail', '--lines', '100']);
  expect(after.out).toContain(`by application ${backend.id}`);
  expect(after.out).toContain(' of the page');
});

test('tail says that no entry has the operation', async () => {
  const hint = (name: string) =>
    `sallyport: hint: no entry has the operation "${name}"; operations have names such as application.update\n`;
  expect(await shell.call(['logs', 'tail', '--operation', 'foo'])).toEqual({
    code: 0,
    out: '',
    err: hint('foo'),
  });
  const known = await shell.call(['logs', 'tail', '--operation', 'token.read', '--result', 'failed']);
  expect(known).toEqual({ code: 0, out: '', err: '' });
});
