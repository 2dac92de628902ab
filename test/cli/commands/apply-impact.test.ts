/** The impact of updates in `sallyport apply --plan`. */
import { expect, test } from 'bun:test';
import { impactText } from '../../../src/cli/commands/apply.ts';
import { setUpApply } from '../../support/apply.ts';
import { apiShell } from '../../support/shell.ts';

const fixture = setUpApply();
const { apply } = fixture;

const file = (transform: string) => `applications:
  - name: desk
    type: private
    rules:
      - { priority: 1, container: /cards/, transform: ${transform}, permissions: [token:read] }
`;

test('--plan says which tokens and recorded reads an update changes', async () => {
  const { server, key } = fixture;
  await apply(file('reveal'), ['--yes', '--keys-dir', fixture.folder]);
  const desk = (await Bun.file(`${fixture.folder}/desk.key`).text()).trim();
  for (const id of ['card-1', 'card-2']) {
    const body = { id, container: '/cards/', data: 'x' };
    await server.call('POST', '/tokens', { key, body });
    await server.call('GET', `/tokens/${id}`, { key: desk });
  }
  const { code, out, err } = await apply(file('mask'), ['--plan']);
  expect([code, err]).toEqual([5, '']);
  expect(out).toContain(
    [
      '~ private desk',
      '    - rule priority 1: token:read in /cards/ as reveal',
      '    + rule priority 1: token:read in /cards/ as mask',
      '    ! 2 tokens in /cards/ change from reveal to mask',
      '    ! 2 reads by 1 application change from reveal to mask',
      '',
    ].join('\n'),
  );
  const json = JSON.parse((await apply(file('mask'), ['--plan', '--json'])).out);
  expect(json.update[0].impact.reads.data).toHaveLength(1);
  expect(JSON.parse((await apply(file('reveal'), ['--plan', '--json'])).out).update).toEqual([]);
});

test('without access:review the plan is printed without the impact', async () => {
  await apply(file('reveal'), ['--yes']);
  const permissions = ['application:read', 'application:update', 'token:read'];
  const editor = await fixture.server.application(fixture.key, { permissions });
  const call = apiShell(fixture.server.url, editor.key).call;
  const { code, out, err } = await call(['apply', '-', '--plan'], { stdin: file('mask') });
  expect([code, err]).toEqual([5, expect.stringContaining('hint: the impact of the updates is not shown')]);
  expect(err).toContain('access:review');
  expect(out).toContain('~ private desk');
  expect(out).not.toContain('!');
});

test('lower bounds, sessions and missing records are named', () => {
  const change = { permission: 'invoice:read', from: 'reveal', to: 'denied' } as const;
  expect(
    impactText({
      dry_run: true,
      quarantined: true,
      changes: [],
      changes_complete: true,
      sessions: { count: 1, complete: true, data: [] },
      tokens: { complete: false, data: [{ ...change, permission: 'token:read', container: '/', count: 3 }] },
      reads: {
        since: '2026-11-15T12:00:00.000Z',
        recorded: 'reveal',
        complete: false,
        undecided: 1,
        data: [{ ...change, count: 312, applications: 2 }],
      },
    }),
  ).toEqual([
    'at least 3 tokens in / change from reveal to denied',
    '1 active session changes',
    'at least 312 reads by 2 applications change from reveal to denied for invoice:read',
    '1 read: too little is recorded',
    'masked reads are not recorded (SALLYPORT_AUDIT_READS=reveal)',
    'in quarantine: this is the impact after the release',
  ]);
});
