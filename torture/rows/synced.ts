/** The order of sync and answer, as the system calls of the server show it. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '../client.ts';
import { each } from '../clients.ts';
import { firstKey, startNode } from '../crash/node.ts';
import { hasStrace, orderIn, readTrace, traced } from '../crash/trace.ts';
import type { Context, Outcome, Row } from '../row.ts';

export const synced: Row = {
  name: 'synced',
  must: 'the system calls of 500 writes: every answer after its sync',
  databases: ['SQLite'],
  run,
};

async function run(context: Context): Promise<Outcome> {
  const writes = context.sized(500, 40);
  if (!hasStrace()) {
    const shortfalls = ['strace is not here, so nobody has looked: apt-get install strace'];
    return { figures: { writes: 0 }, shortfalls };
  }
  const output = join(context.folder, 'trace');
  context.defer(() => rmSync(output, { force: true }));
  await write(context, output, writes);
  const { answered, syncs, early } = orderIn(await readTrace(output), /write-\d{5}/g, '.db-wal');
  const shortfalls = early.slice(0, 5).map((id) => `${id} was answered before its sync`);
  if (answered !== writes) shortfalls.push(`of ${writes} writes the trace shows ${answered} answers`);
  return { figures: { writes: answered, syncs, 'answers before their sync': early.length }, shortfalls };
}

/** The first half one by one, the rest so that many share a commit. */
async function write(context: Context, output: string, writes: number): Promise<void> {
  const command = [...traced(output), await context.executable()];
  const node = await startNode(context, { databaseUrl: await context.freshDatabase(), command });
  const client = new Client(node.url);
  const key = firstKey(context);
  const one = async (index: number) => {
    const body = { name: `write ${index}`, type: 'private', permissions: ['mine:x'] };
    const headers = [`SVC-REQUEST-ID: write-${String(index).padStart(5, '0')}`];
    const { status, text } = await client.call('POST', '/applications', { key, body, headers });
    context.secrets.addFrom(text);
    if (status !== 201) throw new Error(`a write was answered with ${status}: ${text}`);
  };
  await each(writes / 2, 1, one);
  await each(writes / 2, 16, (index) => one(writes / 2 + index));
  client.close();
  await node.stop();
}
