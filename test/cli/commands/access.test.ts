import { expect, test } from 'bun:test';
import { shell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const server = await openTestServer(sqlite);
const { key } = await server.tenant();
const rule = { priority: 1, container: '/shop/', permissions: ['token:read'] };
for (const [name, transform] of Object.entries({ audit: 'redact', shop: 'reveal', desk: 'mask' }))
  await server.application(key, { name, permissions: undefined, rules: [{ ...rule, transform }] });

const run = (...argv: string[]) => access('who', ...argv);
const access = (...argv: string[]) =>
  shell(['access', ...argv], { env: { SALLYPORT_URL: server.url, SALLYPORT_KEY: key } });

test('access who lists the riskiest first, and the totals on standard error', async () => {
  const { code, out, err } = await run('--container', '/shop/cards/');
  expect([code, err]).toEqual([0, '1 reveal, 2 mask, 1 redact\n']);
  const rows = out.split('\n').map((line) => line.split(/ {2,}/));
  expect(rows.slice(0, -1).map(([transform, , name, , rule]) => [transform, name, rule])).toEqual([
    ['TRANSFORM', 'NAME', 'RULE'],
    ['reveal', 'shop', 'rule 1'],
    ['mask', 'desk', 'rule 1'],
    ['mask', expect.any(String), 'permissions'],
    ['redact', 'audit', 'rule 1'],
  ]);
});

test('access who prints JSON, and reads further pages', async () => {
  for (let index = 0; index < 130; index++) await server.application(key, { permissions: ['invoice:read'] });
  const { out } = await run('--container', '/', '--permission', 'invoice:read', '--json', '--limit', 'all');
  expect(JSON.parse(out)).toHaveLength(130);
});

test.each([
  [[], 'pass either --container or --token'],
  [['--container', '/', '--token', 'card-42'], '--container and --token cannot both be given'],
])('access who %p is a usage error', async (argv, message) => {
  const { code, err } = await run(...argv);
  expect([code, err]).toEqual([2, expect.stringContaining(message)]);
});

test('access diff lists who gained and lost access since a time', async () => {
  const from = new Date(server.clock.now()).toISOString();
  server.clock.advance(1000);
  const rule = { priority: 1, container: '/diff/', transform: 'reveal', permissions: ['token:read'] };
  const { id } = await server.application(key, { name: 'new desk', permissions: undefined, rules: [rule] });
  server.clock.advance(1000);
  const middle = new Date(server.clock.now()).toISOString();
  server.clock.advance(1000);
  await server.call('DELETE', `/applications/${id}`, { key });
  const gained = await access('diff', '--from', from, '--to', middle, '--container', '/diff/');
  expect([gained.code, gained.err]).toEqual([0, '']);
  expect(gained.out).toMatch(
    /^gained +new desk +token:read +\/diff\/ +denied to reveal +application\.create /m,
  );
  const lost = await access('diff', '--from', middle, '--container', '/diff/');
  expect(lost.out).toMatch(/^lost +new desk .* reveal to denied +application\.delete /m);
  const json = JSON.parse((await access('diff', '--from', from, '--container', '/diff/', '--json')).out);
  expect(json).toMatchObject({ complete: true, unknown: [], data: [] });
  const none = await access('diff');
  expect([none.code, none.err]).toEqual([2, expect.stringContaining('pass --from')]);
});

test('access advise lists unused grants, and prints proposals that apply accepts', async () => {
  const rule = {
    priority: 1,
    container: '/',
    transform: 'reveal',
    permissions: ['token:read', 'token:delete'],
  };
  const desk = await server.application(key, { name: 'advised', permissions: undefined, rules: [rule] });
  await server.call('POST', '/tokens', { key, body: { id: 'advised-1', container: '/advised/', data: 'x' } });
  await server.call('GET', '/tokens/advised-1', { key: desk.key });
  await server.flush();
  const { code, out } = await access('advise', '--app', 'advised');
  expect(code).toBe(0);
  expect(out).toMatch(/^change +advised +token:delete +\/ +reveal +1$/m);
  const yaml = (await access('advise', '--app', 'advised', '--yaml')).out;
  const env = { SALLYPORT_URL: server.url, SALLYPORT_KEY: key };
  const plan = await shell(['apply', '-', '--plan'], { env, stdin: yaml });
  expect(plan.out).toContain('+ rule priority 1: token:read in /advised/ as reveal');
  expect(plan.code).toBe(5);
});

test('access people lists who can sign in as which application, and says as what a person would', async () => {
  const { key: owner } = await server.tenant();
  const people = (...argv: string[]) =>
    shell(['access', 'people', ...argv], { env: { SALLYPORT_URL: server.url, SALLYPORT_KEY: owner } });
  const entries = {
    readers: [{ level: 2 }, 20],
    admins: [{ groups: 'admins', active: true }, 10],
    later: [{ groups: 'admins' }, 20],
  };
  for (const [name, [claims, sign_in_priority]] of Object.entries(entries))
    await server.application(owner, {
      name,
      type: 'management',
      permissions: ['log:read'],
      trusted_issuers: [{ issuer: 'https://login.example', audience: 'console', claims, sign_in_priority }],
    });
  expect((await people()).out.replace(/ +/g, ' ')).toBe(
    [
      'PRIORITY APPLICATION ISSUER CLAIMS',
      '10 admins https://login.example groups=admins, active=true',
      '20 readers https://login.example level=2',
      '20 later https://login.example groups=admins',
      '',
    ].join('\n'),
  );
  const chosen = async (...claims: string[]) =>
    JSON.parse((await people('--json', ...claims.flatMap((claim) => ['--claim', claim]))).out).map(
      ({ application }: { application: { name: string } }) => application.name,
    );
  expect(await chosen('groups=staff,admins', 'active=true', 'level=2')).toEqual([
    'admins',
    'readers',
    'later',
  ]);
  expect(await chosen('groups=admins')).toEqual(['later']);
  expect(await chosen('groups=staff')).toEqual([]);
});
