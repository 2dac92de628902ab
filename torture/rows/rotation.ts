/** Rotates the master key while every node reads and writes tokens of many tenants. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseMasterKeys } from '../../src/db/keys/cipher.ts';
import { newTenant } from '../../src/operations/bootstrap.ts';
import { openStore } from '../../src/store/open.ts';
import { generousTimeout, testMasterKey } from '../../test/support/test-server.ts';
import { masterKeys, runSql } from '../../test/support/test-store.ts';
import { Client } from '../client.ts';
import { startNode } from '../crash/node.ts';
import { runCommand } from '../crash/operator.ts';
import { forEachConcurrently } from '../fleet-clients.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const rotation: Row = {
  name: 'rotation',
  requirement:
    'the master key is rotated while 10,000 tokens are read: 0 failures, 0 data keys still wrapped by the old master key',
  databases: bothDatabases,
  run,
};

interface Made {
  readonly key: string;
  readonly path: string;
  readonly shown: string;
}

const inUse =
  'select id from master_key union select master_id from data_keys union select master_id from audit_key';

async function run(context: Context): Promise<Outcome> {
  const count = context.sized(10_000, 200);
  const databaseUrl = await context.freshDatabase();
  const file = join(context.folder, 'master.key');
  writeFileSync(file, `${testMasterKey}\n`, { mode: 0o600 });
  const env = {
    SALLYPORT_MASTER_KEY_FILE: file,
    SALLYPORT_MASTER_KEY: '',
    SALLYPORT_DATABASE_TIMEOUT: String(generousTimeout),
  };
  const program = [await context.executable()];
  const start = () => startNode(context, { databaseUrl, command: program, env });
  const nodes = [await start()];
  while (nodes.length < context.sized(3, 2)) nodes.push(await start());
  const clients = nodes.map(({ url }) => new Client(url));
  context.defer(() => clients.forEach((client) => void client.close()));
  const keys = await tenantKeys(context, databaseUrl, context.sized(500, 20));
  const made: Made[] = [];
  const errors: string[] = [];
  const client = (index: number) => clients[index % clients.length] as Client;

  const write = async (index: number) => {
    const token = await store(context, client(index), keys[index % keys.length] as string, index);
    if (typeof token === 'string') errors.push(token);
    else made.push(token);
  };
  const read = async (index: number) => {
    const complaint = await look(client(index), made[index % made.length] as Made);
    if (complaint) errors.push(complaint);
  };

  await forEachConcurrently(count * 0.9, 32, write);
  let [rotating, reads] = [true, 0];
  const lanes = Array.from({ length: 6 }, async (_, lane) => {
    while (rotating) {
      await read(context.random.below(made.length));
      if (reads++ % 10 === lane) await write(made.length);
    }
  });
  const rotate = () => runCommand(context, databaseUrl, [...program, 'master-key', 'rotate', '--yes'], env);
  const rotations = [await rotate(), await rotate()];
  while (reads < context.sized(2000, 100) && rotations.length < 8) rotations.push(await rotate());
  rotating = false;
  await Promise.all(lanes);
  if (made.length < count)
    await forEachConcurrently(count - made.length, 32, (index) => write(made.length + index));
  await forEachConcurrently(made.length, 32, read);
  const left = await leftBehind(databaseUrl, file);
  const old = await runCommand(context, databaseUrl, [...program, 'serve'], {
    SALLYPORT_MASTER_KEY: testMasterKey,
  });
  for (const { code, err } of rotations) if (code !== 0) errors.push(`rotate ended with ${code}: ${err}`);
  if (old.code !== 1) errors.push(`with the old key alone, it ended with ${old.code}`);
  return {
    figures: {
      tokens: made.length,
      tenants: keys.length,
      rotations: rotations.length,
      'reads during the rotations': reads,
      failures: errors.length,
      'keys left on an old master key': left,
    },
    failures: [
      ...errors.slice(0, 8),
      ...(left > 0 ? [`${left} data keys are still wrapped by an old master key`] : []),
    ],
  };
}

async function leftBehind(databaseUrl: string, file: string): Promise<number> {
  const [current] = parseMasterKeys(readFileSync(file, 'utf8').trim().split('\n').join());
  const rows = await runSql<{ id: string }>(databaseUrl, inUse);
  return rows.filter(({ id }) => id !== current?.id).length;
}

/** Creates tenants directly in the store and returns their management keys. */
async function tenantKeys(context: Context, databaseUrl: string, count: number): Promise<string[]> {
  const direct = await openStore(databaseUrl, {
    masters: masterKeys(testMasterKey),
    timeout: generousTimeout,
  });
  const tenants = Array.from({ length: count }, () => newTenant('torture', Date.now()));
  await forEachConcurrently(count, 8, (index) =>
    direct.maintenance.tenants.create(tenants[index] as (typeof tenants)[number]),
  );
  await direct.close();
  return tenants.map(({ secret }) => context.secrets.add(secret.reveal()));
}

async function store(context: Context, client: Client, key: string, index: number): Promise<Made | string> {
  const shown = String(index).padStart(6, '0');
  const body = { data: `${context.secrets.plaintext(index)}${shown}`, mask: '{{ data | last: 6 }}' };
  const { status, text } = await client.call('POST', '/tokens', { key, body });
  if (status !== 201) return `creating a token returned ${status}: ${text}`;
  return { key, path: `/tokens/${JSON.parse(text).id}`, shown };
}

async function look(client: Client, { key, path, shown }: Made): Promise<string | undefined> {
  const { status, text } = await client.call('GET', path, { key });
  if (status === 200 && JSON.parse(text).data === shown) return undefined;
  return `reading a token expected to return ${shown} returned ${status}: ${text}`;
}
