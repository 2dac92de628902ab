import { expect, test } from 'bun:test';
import { readConfig } from '../../src/config/settings.ts';
import { migrate } from '../../src/db/migrate.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { diagnose } from '../../src/operations/diagnosis.ts';
import {
  fewConnections,
  generousTimeout,
  openTestServer,
  postgres,
  testMasterKey,
} from '../support/test-server.ts';
import { masterKeys, runSql } from '../support/test-store.ts';

/** The documented SQL for two roles. */
const guide = await Bun.file(`${import.meta.dirname}/../../docs/operations/postgresql.md`).text();
const [, statements = ''] = /### Least privilege[\s\S]*?```sql\n([\s\S]*?)```/.exec(guide) ?? [];

test('the service runs with the rights to read and write rows, after another role has migrated', async () => {
  const url = await postgres.createEmpty('');
  const id = crypto.randomUUID().slice(0, 8);
  const [owner, service] = [`owner_${id}`, `service_${id}`];
  const database = new URL(url).pathname.slice(1);
  const sql = statements
    .replaceAll('sallyport_owner', owner)
    .replace(/create database sallyport .*;/, `alter database ${database} owner to ${owner};`)
    .replaceAll(/\bsallyport\b/g, service);
  expect(sql).toContain(`grant select, insert, update, delete on tables to ${service}`);
  for (const statement of sql.split(';').filter((text) => text.trim() !== '' && !text.includes('\\c')))
    await runSql(url, statement);
  const as = (role: string) => url.replace('postgres@', `${role}@`);

  const unprivileged = openPostgres(as(service), undefined, generousTimeout, fewConnections);
  await expect(migrate(unprivileged)).rejects.toMatchObject({
    message: expect.stringContaining('may not change the schema'),
    todo: expect.stringContaining('run `sallyport migrate`'),
  });
  await unprivileged.close();

  const migrating = openPostgres(as(owner), undefined, generousTimeout, fewConnections);
  await migrate(migrating);
  await migrating.close();

  const node = await openTestServer(as(service));
  const { key } = await node.tenant();
  const { id: application } = await node.application(key);
  const token = await node.call('POST', '/tokens', { key, body: { container: '/c/', data: 'x' } });
  expect(token.status).toBe(201);
  expect((await node.call('DELETE', `/applications/${application}`, { key })).status).toBe(204);
  await node.flush();
  const problems = node.logged.filter((line) => /"level":"(warn|error)"/.test(line));
  // The first is logged only if the machine is slow.
  const expected = /startup is waiting|no witness is set/;
  expect(problems.filter((line) => !expected.test(line))).toEqual([]);
  await node.close();
  await expect(runSql(as(service), 'drop table tokens')).rejects.toThrow('must be owner');
  await expect(runSql(as(service), 'create table other (id integer)')).rejects.toThrow('permission denied');

  const config = readConfig({
    env: { DATABASE_URL: as(service), SALLYPORT_DATABASE_TIMEOUT: String(generousTimeout) },
  });
  const checks = await diagnose(config, masterKeys(testMasterKey), Date.now);
  const failures = checks.filter(({ state }) => state === 'fail').map(({ message }) => message);
  // The server of the tests is not safe against crashes.
  expect(failures.filter((message) => !/^(fsync|full_page_writes) is off/.test(message))).toEqual([]);
});
