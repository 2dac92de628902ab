import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dumpDatabase } from '../../test/support/database.ts';
import { ProgramFolder } from '../../test/support/program.ts';
import { testMasterKey } from '../../test/support/test-server.ts';
import { runSql } from '../../test/support/test-store.ts';
import type { RequestOptions } from '../client.ts';
import { type Body, clientsOf } from '../fleet-clients.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';
import { everyEncoding, type Found, searchBytes, searchFolder } from '../secret-search.ts';

export const secrets: Row = {
  name: 'secrets',
  requirement:
    'every secret of the run, searched in logs, audit, database, WAL, metrics, dumps and errors: no hits',
  databases: bothDatabases,
  last: true,
  run,
};

async function run(context: Context): Promise<Outcome> {
  const { folder, databaseUrls, fleets } = await context.remains();
  const shared = await context.fleet();
  await misplaced(context, shared.databaseUrl);
  await exported(context, shared.databaseUrl);
  for (const fleet of new Set([...fleets, shared])) {
    for (const [at, { metricsUrl, out, err }] of fleet.nodes.entries()) {
      writeFileSync(join(context.folder, `metrics-${at}.txt`), await (await fetch(metricsUrl)).text());
      writeFileSync(join(context.folder, `said-${at}.log`), out() + err());
    }
  }

  const failures: string[] = [];
  const { name } = context.database;
  const other = name === 'SQLite' ? '-PostgreSQL/' : '-SQLite/';
  const files = searchFolder(folder, context.secrets, (path) => !path.includes(other));
  const found: Found[] = [...files.found];
  let { bytes } = files;
  if (name === 'PostgreSQL') {
    const server = await searchServer(
      context,
      databaseUrls.filter((url) => url.startsWith('postgres:')),
    );
    bytes += server.bytes;
    found.push(...server.found);
  }
  for (const missed of blindSpots(context)) failures.push(missed);
  for (const { secret, where, form } of found) {
    failures.push(`${secret.slice(0, 12)}… found in ${where} (${form})`);
  }
  return {
    figures: {
      secrets: context.secrets.all.size,
      'MB searched': Math.round(bytes / 1e6),
      hits: found.length,
    },
    failures: failures.slice(0, 10),
  };
}

/** Sends secrets in places where users may put them by mistake, to a node with debug logging. */
async function misplaced(context: Context, databaseUrl: string): Promise<void> {
  const fleet = await context.start({ nodes: 1, databaseUrl, env: { SALLYPORT_LOG_LEVEL: 'debug' } });
  const { must, application, call } = clientsOf(context, fleet);
  const { key } = await fleet.tenant();
  const [backend, web] = [await application(key), await application(key, { type: 'public' })];
  const session: Body = await must(0, 'POST', '/sessions', { key: web.key });
  const data = context.secrets.plaintext('misplaced');
  const token = await must(0, 'POST', '/tokens', { key, body: { data, mask: 'x' } });
  const answers: string[] = [];
  const ask = async (method: string, path: string, options: RequestOptions) => {
    const { head, text } = await call(0, method, path, options);
    answers.push(head, text);
  };
  for (const secret of [key, backend.key, session.session_key, session.nonce]) {
    const headers = [`SVC-REQUEST-ID: ${secret}`, `User-Agent: ${secret}`, `Idempotency-Key: ${secret}`];
    await ask('GET', `/applications/${secret}`, { key, headers });
    await ask('GET', `/tokens?${secret}=${secret}`, { key, headers });
    await ask('GET', `/${secret}`, { key: secret });
    await ask('POST', '/applications', { key, headers, body: { [secret]: secret, type: secret } });
    await ask('POST', '/applications', { key, body: `{"${secret}"` });
    await ask('POST', '/sessions/authorize', { key, body: { nonce: secret, permissions: [secret] } });
    await ask('POST', '/decisions', { key, body: { credential: secret, permission: 'mine:x' } });
    await ask('PATCH', `/tokens/${token.id}`, { key, body: { data: secret, mask: `{{ ${secret}` } });
  }
  answers.push(await (await fetch(fleet.at(0).metricsUrl)).text());
  writeFileSync(join(context.folder, 'answers.txt'), answers.join('\n'));
  await fleet.close();
}

/** An audit export, and a backup on SQLite. */
async function exported(context: Context, databaseUrl: string): Promise<void> {
  const program = new ProgramFolder();
  const env = { DATABASE_URL: databaseUrl, SALLYPORT_MASTER_KEY: testMasterKey };
  try {
    const audit = await program.run(['audit', 'export', join(context.folder, 'audit.jsonl')], env);
    if (audit.code !== 0) throw new Error(`the audit export failed: ${audit.err}`);
    if (context.database.name === 'PostgreSQL') return;
    const backup = await program.run(['backup', join(context.folder, 'backup.db')], env);
    if (backup.code !== 0) throw new Error(`the backup failed: ${backup.err}`);
  } finally {
    await program.close();
  }
}

/** Every row of every database as text, and all files of the server, WAL included. */
async function searchServer(context: Context, databaseUrls: readonly string[]) {
  const found: Found[] = [];
  let bytes = 0;
  for (const url of databaseUrls) {
    const rows = Buffer.from(await dumpDatabase(url));
    bytes += rows.length;
    found.push(...searchBytes(rows, url, context.secrets));
  }
  const [server] = await runSql<{ data_directory: string }>(databaseUrls[0] as string, 'show data_directory');
  const files = searchFolder(server?.data_directory as string, context.secrets, () => true);
  return { bytes: bytes + files.bytes, found: [...found, ...files.found] };
}

/** Encodings in which the search does not find a secret. */
function blindSpots(context: Context): string[] {
  const examples = [...context.secrets.all].slice(0, 20);
  return examples.flatMap((secret) =>
    everyEncoding(secret).flatMap((bytes, form) =>
      searchBytes(bytes, 'a test', context.secrets).some((hit) => hit.secret === secret)
        ? []
        : [`the search does not find a secret in ${form}`],
    ),
  );
}
