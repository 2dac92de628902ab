import { Database } from 'bun:sqlite';
import { beforeEach, describe, expect, test } from 'bun:test';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { type Cli, openCli } from '../../support/cli.ts';
import { formatProblems, problemsIn, runDoctor } from '../../support/doctor.ts';
import { isMissing } from '../../support/skip.ts';

/** Changes a name in an index, but not in its table. `quick_check` does not notice the difference. */
function damageIndex(path: string): void {
  const db = new Database(path);
  db.run('pragma journal_mode = delete');
  const row = db.query('select tenant_id, name from applications').get() as Record<
    'tenant_id' | 'name',
    string
  >;
  db.run('pragma journal_mode = wal');
  db.close();
  const bytes = readFileSync(path);
  bytes.write('?', bytes.indexOf(row.tenant_id + row.name) + row.tenant_id.length);
  writeFileSync(path, bytes);
  const damaged = new Database(path);
  expect(damaged.query('pragma quick_check').values()).toEqual([['ok']]);
  damaged.close();
}

const settings = { SALLYPORT_TEST_POSTGRES: '', KUBERNETES_SERVICE_HOST: '' };

describe('doctor on SQLite: files', () => {
  let cli: Cli;
  const at = (name: string) => cli.path(`data/${name}`);
  beforeEach(async () => {
    cli = openCli(() => settings);
    await cli.run('migrate');
    expect((await cli.run('tenants', 'create', 'x')).code).toBe(0);
  });

  test('suggests a restore if SQLite cannot read the file', async () => {
    for (const [from, to] of [
      [100, 4096],
      [0, 4096],
    ]) {
      const bytes = readFileSync(at('sallyport.db'));
      writeFileSync(at('sallyport.db'), bytes.fill(0xff, from, to));
      expect(problemsIn((await runDoctor(cli)).checks)).toMatchObject([
        {
          name: 'database',
          state: 'fail',
          message: expect.stringContaining('sallyport.db is damaged: '),
          hint: `stop the service and restore a backup of ${at('sallyport.db')}: see docs/operations/backups.md`,
        },
      ]);
    }
  });

  test('reports an index that differs from its table, and does not change the file', async () => {
    damageIndex(at('sallyport.db'));
    const before = readFileSync(at('sallyport.db'));
    const { code, checks } = await runDoctor(cli);
    expect({ code, problems: formatProblems(checks) }).toEqual({
      code: 1,
      problems: [expect.stringMatching(/sallyport.db is damaged: .*applications_by_name/)],
    });
    expect(readFileSync(at('sallyport.db')).equals(before)).toBe(true);
  });

  const noRoot = isMissing(process.getuid?.() === 0, 'a volume of root: only root can create one');
  test.skipIf(noRoot)('accepts the modes of Kubernetes volumes and secrets', async () => {
    const inKubernetes = openCli(() => ({
      ...settings,
      KUBERNETES_SERVICE_HOST: '10.0.0.1',
      SALLYPORT_DATA_DIR: cli.path('data'),
    }));
    chmodSync(cli.path('data'), 0o2777);
    chmodSync(at('master.key'), 0o440);
    const { code, checks } = await runDoctor(inKubernetes);
    expect({ code, found: problemsIn(checks) }).toEqual({ code: 0, found: [] });
    chmodSync(at('master.key'), 0o444);
    expect(formatProblems((await runDoctor(inKubernetes)).checks)).toEqual([
      expect.stringMatching(/^fail files: .*master.key is readable by other users$/),
    ]);
  });

  test('fails if all users can write to the data folder', async () => {
    for (const mode of [0o2777, 0o777, 0o702]) {
      chmodSync(cli.path('data'), mode);
      const { code, checks } = await runDoctor(cli);
      expect({ code, problems: problemsIn(checks) }).toMatchObject({
        code: 1,
        problems: [
          {
            name: 'files',
            state: 'fail',
            message: expect.stringMatching(/^all users can write to .*data, /),
            hint: `chmod 700 ${cli.path('data')}`,
          },
        ],
      });
    }
  });
});
