/** Checks with strace that every outcome of a change is sent after a sync, which the event loop does not wait for. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '../client.ts';
import { firstKey, startNode } from '../crash/node.ts';
import { hasStrace, parseOrder, readTrace, traced } from '../crash/trace.ts';
import { forEachConcurrently } from '../fleet-clients.ts';
import type { Context, Outcome, Row } from '../row.ts';

export const synced: Row = {
  name: 'fsync-order',
  requirement:
    'the system calls of 500 changes, a third of them refused or replayed: every response after a sync that began after what it tells, and no sync on the event loop',
  databases: ['SQLite'],
  run,
};

async function run(context: Context): Promise<Outcome> {
  const changes = context.sized(501, 60);
  if (!hasStrace()) {
    const failures = ['strace is not installed: apt-get install strace'];
    return { figures: { changes: 0 }, failures };
  }
  const output = join(context.folder, 'trace');
  context.defer(() => rmSync(output, { force: true }));
  await change(context, output, changes);
  const token = (id: string) => Math.floor(Number(id.slice(-5)) / 3);
  const order = parseOrder(await readTrace(output), /change-\d{5}/g, '.db-wal', token);
  const { answered, syncs, early, onEventLoop } = order;
  const failures = early.slice(0, 5).map((id) => `${id} was answered before its sync`);
  if (answered !== changes) failures.push(`the trace shows ${answered} responses to ${changes} changes`);
  if (onEventLoop > 0) failures.push(`${onEventLoop} syncs were on the event loop`);
  return {
    figures: {
      changes: answered,
      syncs,
      'syncs on the event loop': onEventLoop,
      'responses before their sync': early.length,
    },
    failures,
  };
}

/**
 * Three requests at a time: a token is created twice, which is refused once, and a third request repeats one of them
 * with its idempotency key. The second half is sent by several clients, so that changes share commits.
 */
async function change(context: Context, output: string, changes: number): Promise<void> {
  const command = [...traced(output), await context.executable()];
  const node = await startNode(context, { databaseUrl: await context.freshDatabase(), command });
  const client = new Client(node.url);
  const key = firstKey(context);
  const three = async (index: number) => {
    const body = { id: `token-${index}`, data: context.secrets.plaintext(`change ${index}`) };
    const create = async (number: number, repeated: string) => {
      const id = String(3 * index + number).padStart(5, '0');
      const headers = [`SVC-REQUEST-ID: change-${id}`, `Idempotency-Key: ${repeated}`];
      return (await client.call('POST', '/tokens', { key, body, headers })).status;
    };
    const both = await Promise.all([create(0, `one-${index}`), create(1, `other-${index}`)]);
    const [created = 0, refused = 0] = both.toSorted();
    const replayed = await create(2, both[0] === 201 ? `one-${index}` : `other-${index}`);
    if (`${created} ${refused} ${replayed}` !== '201 409 201')
      throw new Error(`changes were answered with ${created}, ${refused} and ${replayed}`);
  };
  const rounds = changes / 3;
  const sequential = Math.ceil(rounds / 2);
  await forEachConcurrently(sequential, 1, three);
  await forEachConcurrently(rounds - sequential, 8, (index) => three(sequential + index));
  client.close();
  await node.stop();
}
