/** A newer program migrates the schema while older nodes serve. The older one must not start on the newer schema. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newestSchema } from '../../src/db/migrate.ts';
import { runSql } from '../../test/support/test-store.ts';
import { buildProgram, type SourcePatch } from '../crash/executable.ts';
import { brokenInvariants } from '../crash/invariants.ts';
import { ledgerOf } from '../crash/ledger.ts';
import { startNode } from '../crash/node.ts';
import { runCommand } from '../crash/operator.ts';
import { databaseTimeout } from '../retry.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const migration: Row = {
  name: 'migration',
  requirement:
    'migration up while nodes serve: 0 errors; the older program does not start on the newer schema and says why',
  databases: bothDatabases,
  run,
};

const root = join(import.meta.dirname, '..', '..');

/** Typical migrations of the busiest tables. */
const next = [
  'alter table applications add column next_note text',
  'alter table application_keys add column next_at bigint',
  'alter table sessions add column next_at bigint',
  'alter table tokens add column next_note text',
  `alter table audit_segments add column next_id uuid;
   create index audit_segments_by_next on audit_segments (next_id) where next_id is not null`,
  'create table next_things (tenant_id uuid not null references tenants (id), id uuid primary key)',
];

/** A newer program: the current one with more migrations. */
const newer: SourcePatch = {
  file: /src[\\/]db[\\/]migrate\.ts$/,
  revise: (source) => {
    const more = next.map((sql, index) => `  { name: '999${index}_next', sql: ${JSON.stringify(sql)} },`);
    return source.replace('\n];\n', `\n${more.join('\n')}\n];\n`);
  },
};

const lanes = 4;

async function run(context: Context): Promise<Outcome> {
  const rounds = context.sized(3, 1);
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-newer-'));
  context.defer(() => rmSync(folder, { recursive: true, force: true }));
  const programs = { older: await context.executable(), newer: await buildProgram(root, folder, [newer]) };
  const total = { answered: 0, waited: 0, meanwhile: 0, refusals: 0 };
  const wrong: string[] = [];
  const late: string[] = [];
  for (let round = 0; round < rounds; round++) {
    const inner = { ...context, folder: join(context.folder, String(round)) };
    const outcome = await oneRound(inner, programs);
    total.answered += outcome.answered;
    total.waited += outcome.waited;
    total.meanwhile += outcome.meanwhile;
    wrong.push(...outcome.wrong);
    if (outcome.waited > outcome.answered / 100) late.push(`${outcome.waited} changes got 503`);
    if (outcome.refused) total.refusals++;
    else wrong.push('the older program did not report the newer schema');
  }
  return {
    figures: {
      migrations: rounds,
      'changes answered': total.answered,
      'during the migration': total.meanwhile,
      'retried (503)': total.waited,
      errors: wrong.length,
      'reported refusals to start': total.refusals,
    },
    failures: wrong.slice(0, 10),
    late,
  };
}

async function oneRound(context: Context, programs: { older: string; newer: string }) {
  const databaseUrl = await context.freshDatabase();
  const start = (program: string) =>
    startNode(context, { databaseUrl, command: [program], env: databaseTimeout(context) });
  const older = [await start(programs.older)];
  while (older.length < context.sized(3, 2)) older.push(await start(programs.older));
  const ledger = ledgerOf(context);
  let stopped = false;
  const load = older.map(({ url }) => ledger.write(url, lanes, () => stopped));
  await ledger.more(context.sized(300, 60));
  const before = ledger.answered;
  const node = await start(programs.newer);
  const meanwhile = ledger.answered - before;
  await ledger.more(context.sized(300, 60));
  stopped = true;
  await Promise.all(load);
  const [row] = await runSql<{ version: number }>(
    databaseUrl,
    'select max(version) as version from schema_versions',
  );
  const wrong = [...ledger.wrong];
  if (readFileSync(join(context.folder, 'said.log'), 'utf8').includes('deadlock')) wrong.push('a deadlock');
  if (Number(row?.version) !== newestSchema + next.length) wrong.push(`the schema is ${row?.version}`);
  for (const { url } of [...older, node]) wrong.push(...(await ledger.broken(url, 'all')));
  wrong.push(...(await brokenInvariants(databaseUrl)));
  const late = await runCommand(context, databaseUrl, [programs.older, 'serve']);
  const refused =
    late.code === 1 &&
    late.err.includes(`schema ${newestSchema + next.length}`) &&
    late.err.includes('newer version');
  for (const each of [...older, node]) await each.stop();
  return { answered: ledger.answered, waited: ledger.unanswered, meanwhile, wrong, refused };
}
