/** The disk is full or fsync fails: no unsaved change is acknowledged, and the service recovers with free space. */
import { chownSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { serverUser } from '../../test/support/postgres.ts';
import { Client } from '../client.ts';
import { Cluster } from '../crash/cluster.ts';
import { limitFiles, mountDisk, type SmallDisk } from '../crash/disk.ts';
import { brokenInvariants } from '../crash/invariants.ts';
import { type Ledger, ledgerOf } from '../crash/ledger.ts';
import { firstKey, type KillableNode, startNode } from '../crash/node.ts';
import { operatorChecks } from '../crash/operator.ts';
import { failingSyncs, hasStrace } from '../crash/trace.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';
import { mortalDatabase } from './kill.ts';

export const disk: Row = {
  name: 'disk',
  requirement:
    'disk full, I/O error on sync of PostgreSQL: no false acknowledgement; recovers when space is available; on SQLite, keys are revoked and the log is read on a full disk',
  databases: bothDatabases,
  run,
};

const lanes = 4;
const longestRecovery = 5000;

interface Seen {
  answered: number;
  refused: number;
  recovered: number;
  revoked: number;
  readonly wrong: string[];
}

async function run(context: Context): Promise<Outcome> {
  const inFolder = (name: string) => {
    const folder = join(context.folder, name);
    mkdirSync(folder);
    return { ...context, folder };
  };
  const full = await fillDisk(inFolder('full'));
  // The row failed-syncs has SQLite.
  const isServer = context.database.name === 'PostgreSQL';
  const torn: Seen = isServer ? await failSyncs(inFolder('sync')) : { ...nothing, wrong: [] };
  return {
    figures: {
      'answered until full, and after': full.answered,
      'refused while full': full.refused,
      'keys revoked while full': full.revoked,
      'ms until served again': Math.round(full.recovered),
      ...(isServer && {
        'answered while syncs failed': torn.answered,
        'refused by a failed sync': torn.refused,
      }),
      'false answers': full.wrong.length + torn.wrong.length,
    },
    failures: [...full.wrong, ...torn.wrong].slice(0, 10),
    late:
      full.recovered > context.sized(longestRecovery, Number.POSITIVE_INFINITY)
        ? [`it took ${Math.round(full.recovered)} ms to recover`]
        : [],
  };
}

const nothing = { answered: 0, refused: 0, recovered: 0, revoked: 0 };

async function fillDisk(context: Context): Promise<Seen> {
  const seen: Seen = { ...nothing, wrong: [] };
  const small = await smallDatabase(context);
  if (!small) {
    if (context.size === 'full') seen.wrong.push('a small disk for PostgreSQL can be mounted by root alone');
    return seen;
  }
  const { databaseUrl, disk } = small;
  const program = await context.executable();
  const node = await startNode(context, { databaseUrl, command: [...disk.before, program] });
  const hasReserve = context.database.name === 'SQLite' && disk.before.length === 0;
  const revoke = hasReserve ? await prepareRevocations(context, node) : undefined;
  disk.leave(context.sized(1024, 256));
  const ledger = ledgerOf(context);
  let stopped = false;
  const writing = ledger.write(node.url, lanes, () => stopped);
  while (ledger.unanswered < context.sized(100, 20)) await Bun.sleep(5);
  seen.refused = ledger.unanswered;
  await stillThere(node, ledger, seen);
  await revoke?.(seen);
  const roomAt = performance.now();
  disk.grow(node.pid);
  await ledger.more(20);
  seen.recovered = performance.now() - roomAt;
  stopped = true;
  await writing;
  await node.kill();
  await reopen(context, databaseUrl, ledger, seen);
  return seen;
}

/** Creates keys. Returns a function that revokes them and looks for the entries in the audit log. */
async function prepareRevocations(context: Context, { url }: KillableNode) {
  const management = firstKey(context);
  const client = new Client(url);
  context.defer(() => client.close());
  const call = (method: string, path: string, body?: object) =>
    client.call(method, path, { key: management, body });
  const created: { id: string; key: string }[] = [];
  while (created.length < context.sized(200, 20)) {
    const body = { name: 'to be revoked', type: 'private', permissions: ['application:read'] };
    created.push(JSON.parse((await call('POST', '/applications', body)).text));
  }
  return async (seen: Seen) => {
    for (const { id, key } of created) {
      context.secrets.add(key);
      const { status } = await call('DELETE', `/applications/${id}`);
      const after = await client.call('GET', '/applications/key', { key });
      if (status !== 204 || after.status !== 401)
        seen.wrong.push(
          `on a full disk, revoking a key returned ${status}, and the key then got ${after.status}`,
        );
      const { status: listed, text } = await call('GET', '/logs?operation=application.delete&size=100');
      if (listed !== 200 || !text.includes(id)) seen.wrong.push(`GET /logs returned ${listed}: ${text}`);
      seen.revoked++;
    }
    const { text } = await call('GET', '/readyz');
    if (!text.includes('"disk_full":true')) seen.wrong.push(`/readyz on a full disk: ${text}`);
  };
}

/** Checks that all acknowledged data can be read while writes fail. */
async function stillThere(node: KillableNode, ledger: Ledger, seen: Seen): Promise<void> {
  seen.wrong.push(...(await ledger.broken(node.url, 'certain')));
}

/** Makes a sync of PostgreSQL fail. It crashes and recovers automatically. */
async function failSyncs(context: Context): Promise<Seen> {
  const seen: Seen = { ...nothing, wrong: [] };
  if (!hasStrace()) {
    seen.wrong.push('strace is not installed, so no sync failed: apt-get install strace');
    return seen;
  }
  const program = await context.executable();
  // Only WAL syncs fail: a failed sync during recovery is another crash. The migrations need fewer.
  const { url: databaseUrl, crash } = await mortalDatabase(context, failingSyncs('fdatasync', '30'));
  const node = await startNode(context, { databaseUrl, command: [program] });
  const ledger = ledgerOf(context);
  let stopped = false;
  const writing = ledger.write(node.url, lanes, () => stopped);
  await ledger.more(context.sized(400, 150));
  for (let more = 0; ledger.unanswered === 0 && more < 50; more++) await ledger.more(50);
  stopped = true;
  await writing;
  seen.refused = ledger.unanswered;
  if (seen.refused === 0) seen.wrong.push('no sync has failed');
  await node.kill();
  // Without the fault, which would make the server crash again for every new connection.
  await crash();
  await reopen(context, databaseUrl, ledger, seen);
  return seen;
}

/** Restarts without the fault and checks that all acknowledged data exists. */
async function reopen(context: Context, databaseUrl: string, ledger: Ledger, seen: Seen): Promise<void> {
  const program = [await context.executable()];
  const again = await startNode(context, { databaseUrl, command: program });
  await ledger.settle(again.url);
  seen.answered = ledger.answered;
  seen.wrong.push(
    ...(await ledger.broken(again.url, 'all')),
    ...ledger.wrong,
    ...(await brokenInvariants(databaseUrl)),
  );
  await again.kill();
  seen.wrong.push(...(await operatorChecks(context, databaseUrl, program)));
}

async function smallDatabase(
  context: Context,
): Promise<{ databaseUrl: string; disk: SmallDisk } | undefined> {
  const folder = join(context.folder, 'disk');
  if (context.database.name === 'SQLite') {
    const small = mountDisk(context, folder, 98_304) ?? limitFiles(folder, 1024);
    return { databaseUrl: `sqlite:${join(folder, 'full.db')}`, disk: small };
  }
  const small = mountDisk(context, folder, 16_384);
  if (!small) return undefined;
  const space = join(folder, 'space');
  mkdirSync(space);
  if (serverUser.uid !== undefined) chownSync(space, serverUser.uid, serverUser.gid);
  const cluster = await Cluster.make(join(context.folder, 'cluster'));
  context.defer(() => cluster.kill());
  await cluster.start();
  await cluster.sql(`create tablespace small location '${space}'`);
  await cluster.sql('create database small tablespace small');
  return { databaseUrl: cluster.url('small'), disk: small };
}
