import { describe, expect, test } from 'bun:test';
import { appendFileSync, cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessReport, type Sallyport, toCsv } from '../../../sdk/src/sallyport.ts';
import { openCli } from '../../support/cli.ts';
import { ada, signInAs } from '../../support/people.ts';
import { databases, openTestServer, testMasterKey } from '../../support/test-server.ts';

const formula = '=cmd|"/C calc"!A1';

describe.each(databases)('an access report on %s', async (_, database) => {
  let [desk, twin, leaked, manager] = ['', '', '', ''];
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
  const { key, id: tenant } = await server.tenant();
  const env = { SALLYPORT_MASTER_KEY: testMasterKey, SALLYPORT_URL: server.url, SALLYPORT_KEY: key };
  const cli = openCli(() => ({ ...env, DATABASE_URL: server.config.databaseUrl }));
  const folder = cli.path('report');
  const rules = [
    { priority: 1, container: '/cards/', transform: 'reveal', permissions: ['token:read', 'token:create'] },
  ];
  const reader = { name: formula, permissions: undefined, rules };
  const [first, second] = [await server.application(key, reader), await server.application(key, reader)];
  const third = await server.application(key, {});
  const { body: own } = await server.call('GET', '/applications/key', { key });
  [desk, twin, leaked, manager] = [first.id, second.id, third.id, own.id];
  await server.call('POST', '/keys/revoke', { body: { key: third.key } });
  const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/cards/' }];
  const delegated = [{ priority: 1, transform: 'reveal', permissions: ['token:read'], conditions }];
  const delegation = { rules: delegated, subject: 'job:1' };
  expect((await server.call('POST', '/delegations', { key: first.key, body: delegation })).status).toBe(201);
  await server.application(key, { name: 'ends', expires_at: '2100-01-01T00:00:00Z' });
  const renamed = await server.application(key, { name: '<b>old</b>', permissions: ['invoice:read'] });
  const body = { name: '<b>new</b>', permissions: ['invoice:read'] };
  const signOut = signInAs(server, key, ada);
  await server.call('PUT', `/applications/${renamed.id}`, { key, body });
  signOut();
  const token = { id: 'card-1', container: '/cards/', data: '4242' };
  await server.call('POST', '/tokens', { key: first.key, body: token });
  for (const purpose of ['chargeback', 'chargeback', 'support'])
    await server.call('GET', '/tokens/card-1', { key: first.key, headers: { 'SVC-PURPOSE': purpose } });
  await server.call('GET', '/tokens/card-1', { key: second.key, headers: { 'SVC-PURPOSE': 'support' } });
  const question = { permission: 'token:read', resource: { id: 'card-1', container: '/cards/' } };
  const recorded = { ...question, credential: second.key, purpose: 'support', record: true };
  await server.call('POST', '/decisions', { key, body: recorded });
  await cli.run('audit', 'head');
  const made = await cli.run('access', 'report', '--from', '2020-01-01T00:00:00Z', '--out', folder);
  expect(made).toMatchObject({ code: 0, err: '' });

  const text = (name: string) => readFileSync(join(folder, name), 'utf8');
  const rowsOf = (name: string) =>
    text(name)
      .trimEnd()
      .split('\r\n')
      .map((line) =>
        [...line.matchAll(/"((?:[^"]|"")*)"/g)].map(([, cell = '']) => cell.replaceAll('""', '"')),
      );

  const columnsOf = (name: string, ...wanted: string[]) => {
    const [head = [], ...rows] = rowsOf(name);
    return rows.map((row) => wanted.map((column) => row[head.indexOf(column)]));
  };

  test('lists grants, changes, readers with their purpose, and keys without an end', () => {
    expect(
      rowsOf('access.csv').map(([, name, , , grant, , where, transform]) => [name, grant, where, transform]),
    ).toContainEqual([`'${formula}`, 'rule 1', '/cards/', 'reveal']);
    expect(rowsOf('access.csv').filter(([kind]) => kind === 'delegation')).toHaveLength(1);
    const changes = columnsOf('changes.csv', 'By', 'By id', 'Person', 'Operation', 'Of', 'Id');
    const ofAda = changes.find(([, , person]) => person !== '');
    expect(ofAda?.slice(1, 5)).toEqual([
      manager,
      'Ada Lovelace <ada@example.com>',
      'application.update',
      '<b>new</b>',
    ]);
    expect(changes).toContainEqual(['anonymous', '', '', 'key.revoke', 'an application', leaked]);
    const lasting = rowsOf('keys-without-end.csv').map(([name]) => name);
    expect(lasting).toContain('<b>new</b>');
    expect(lasting).not.toContain('ends');
    expect(rowsOf('unused-grants.csv').map(([risk, , , permission]) => [risk, permission])).toContainEqual([
      'management',
      'application:delete',
    ]);
  });

  test('tells readers of the same name apart, and recorded decisions from responses', () => {
    const head = ['By', 'By id', 'Purpose', 'Reported by', 'Responses'];
    const readers = columnsOf('plaintext-readers.csv', ...head);
    expect(readers[0]?.slice(1)).toEqual([desk, 'chargeback', '', '2']);
    const rest = [
      [`'${formula}`, desk, 'none stated', '', '1'],
      [`'${formula}`, desk, 'support', '', '1'],
      [`'${formula}`, twin, 'support', '', '1'],
      [`'${formula}`, twin, 'support', manager, '1'],
    ];
    expect(readers.slice(1).sort()).toEqual(rest.sort());
    const reads = columnsOf('plaintext-reads.csv', ...head);
    expect(reads).toHaveLength(6);
    for (const row of rest) expect(reads).toContainEqual(row);
  });

  test('is a page without markup from names, whose pages are numbered', () => {
    const page = text('report.html');
    expect(page).toContain('&lt;b&gt;new&lt;/b&gt;');
    expect(page).not.toContain('<b>');
    expect(page).toContain('counter(page)');
    expect(page).toContain('It was not verified for this report.');
  });

  test('is in the audit log, with the hashes of its files', async () => {
    const { body } = await server.call('GET', '/logs?operation=access.report', { key });
    const { id, files } = JSON.parse(text('manifest.json'));
    expect(body.data[0]).toMatchObject({
      entity: { kind: 'report', id },
      difference: { files: { to: files } },
    });
  });

  test('is verified together with the log', async () => {
    const { code, body } = await cli.json('audit', 'verify', folder);
    expect([code, body.findings]).toEqual([0, []]);
    expect(body.chains.map(({ chain }: { chain: string }) => chain)).toContain(tenant);
  });

  test.each([
    [
      'a changed file',
      (copy: string) => appendFileSync(join(copy, 'access.csv'), 'x'),
      'access.csv: the file was changed',
    ],
    [
      'a missing file',
      (copy: string) => rmSync(join(copy, 'changes.csv')),
      'changes.csv: the file is missing',
    ],
    [
      'another file',
      (copy: string) => writeFileSync(join(copy, 'more.csv'), ''),
      'more.csv: the file was changed or added',
    ],
    [
      'another period',
      (copy: string) => {
        const path = join(copy, 'manifest.json');
        writeFileSync(path, readFileSync(path, 'utf8').replace('2020-01-01', '2021-01-01'));
      },
      'manifest.json: it was changed',
    ],
  ])('with %s is not valid', async (what, alter, finding) => {
    const copy = cli.path(what.replaceAll(' ', '-'));
    cpSync(folder, copy, { recursive: true });
    alter(copy);
    const { code, out } = await cli.run('audit', 'verify', copy);
    expect([code, out]).toEqual([1, expect.stringContaining(finding)]);
    expect(out).toContain('(changed_report)');
  });

  test('of another database is not valid', async () => {
    const other = openCli((path) => ({
      SALLYPORT_MASTER_KEY: testMasterKey,
      DATABASE_URL: `sqlite:${path}/other.db`,
    }));
    await other.run('migrate');
    await other.run('tenants', 'create', 'other');
    const { code, out } = await other.run('audit', 'verify', folder);
    expect([code, out]).toEqual([1, expect.stringContaining('of another database')]);
  });

  test('includes the result of an earlier verification', async () => {
    const verified = cli.path('verified.json');
    writeFileSync(verified, (await cli.run('audit', 'verify', '--json')).out);
    const to = cli.path('with-verification');
    const from = '2020-01-01T00:00:00Z';
    await cli.run('access', 'report', '--from', from, '--out', to, '--verification', verified);
    expect(readFileSync(join(to, 'report.html'), 'utf8')).toContain('It was verified before: it is valid.');
    expect((await cli.run('audit', 'verify', to)).code).toBe(0);
  });

  test('leaves out what the key may not read, and says so', async () => {
    const reviewer = await server.application(key, { type: 'management', permissions: ['access:review'] });
    const env = { SALLYPORT_URL: server.url, SALLYPORT_KEY: reviewer.key };
    const limited = openCli(() => env);
    const to = limited.path('limited');
    const { code } = await limited.run('access', 'report', '--from', '2020-01-01T00:00:00Z', '--out', to);
    expect([code, readdirSync(to).sort()]).toEqual([
      0,
      ['manifest.json', 'report.html', 'unused-grants.csv'],
    ]);
    expect(readFileSync(join(to, 'report.html'), 'utf8')).toContain('the key lacks log:read');
    const denied = await server.call('GET', `/logs?result=denied&actor=${reviewer.id}`, { key });
    expect(denied.body.data).toEqual([]);
  });

  test.each([
    [{ to: '2019-01-01T00:00:00Z' }, 'to'],
    [{ files: [] }, 'files'],
    [{ files: [{ name: '../x.csv', sha256: '0'.repeat(64) }] }, 'files.0.name'],
    [{ files: [{ name: 'a.csv', sha256: 'x' }] }, 'files.0.sha256'],
    [{ files: ['a.csv', 'a.csv'].map((name) => ({ name, sha256: '0'.repeat(64) })) }, 'files'],
  ])('is not signed with %p', async (part, field) => {
    const files = [{ name: 'a.csv', sha256: '0'.repeat(64) }];
    const body = { from: '2020-01-01T00:00:00Z', to: '2020-02-01T00:00:00Z', files, ...part };
    const { status, body: problem } = await server.call('POST', '/access/reports', { key, body });
    expect([status, Object.keys(problem.errors)]).toEqual([400, [field]]);
  });

  test('names the end of the log of its tenant', () => {
    expect(JSON.parse(text('manifest.json')).anchor).toMatch(
      new RegExp(`^${tenant}:[1-9]\\d*:[0-9a-f]{64}$`),
    );
  });
});

test('a report that cuts a table has the keys of all applications, and says how to see the rest', async () => {
  const [applications, rulesOfEach] = [4100, 49];
  const rules = Array.from({ length: rulesOfEach }, (_, index) => ({
    ...{ priority: index + 1, container: `/${index}/`, transform: 'mask', permissions: ['token:read'] },
  }));
  async function* all() {
    for (let id = 0; id < applications; id++)
      yield { id: `id-${id}`, name: 'x', type: 'private', permissions: [], rules };
  }
  async function* none() {}
  const source = {
    ownPermissions: async () => ['access:review', 'application:read'],
    applications: { all, keys: async () => [{ ending: 'abcd', created_at: '' }] },
    access: { adviceOnAll: none, createReport: async () => ({}) },
  } as unknown as Sallyport;
  const period = { from: '2026-01-01T00:00:00Z', to: '2026-02-01T00:00:00Z' };
  const files = await accessReport(source, period);
  const rowsIn = (name: string) => files.find((file) => file.name === name)?.text.split('\r\n').length;
  expect([rowsIn('access.csv'), rowsIn('keys-without-end.csv')]).toEqual([200_002, applications + 2]);
  expect(files[0]?.text).toContain('More than that were found: the API lists the others.');
});

test('no cell of a CSV file is a formula, also where the separator is another one', () => {
  const cells = ['=1', ' -1', '\t1', 'a;=1+1', 'a; "@x"', 'a\n+1', 'a\t=1', '＝1', 'a=b', 'a; b', '1,-1'];
  for (const separator of [',', ';', '\t', '|']) {
    const text = toCsv([cells], ',');
    const split = text.split(/\r\n|\n/).flatMap((line) => line.split(separator));
    expect(split.filter((cell) => /^[\s"]*[=+\-@＝]/.test(cell))).toEqual([]);
  }
  expect(toCsv([cells.slice(-3)])).toBe(`"a=b","a; b","1,'-1"\r\n`);
});
