/** Checks with strace that responses are sent after fsync. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '../client.ts';
import { firstKey, startNode } from '../crash/node.ts';
import { hasStrace, parseOrder, readTrace, traced } from '../crash/trace.ts';
import { forEachConcurrently } from '../fleet-clients.ts';
import type { Context, Outcome, Row } from '../row.ts';

export const synced: Row = {
  name: 'fsync-order',
  requirement: 'the system calls of 500 writes: every response after its fsync',
  databases: ['SQLite'],
  run,
};

async function run(context: Context): Promise<Outcome> {
  const writes = context.sized(500, 40);
  if (!hasStrace()) {
    const failures = ['strace is not installed: apt-get install strace'];
    return { figures: { writes: 0 }, failures };
  }
  const output = join(context.folder, 'trace');
  context.defer(() => rmSync(output, { force: true }));
  await write(context, output, writes);
  const { answered, syncs, early } = parseOrder(await readTrace(output), /write-\d{5}/g, '.db-wal');
  const failures = early.slice(0, 5).map((id) => `${id} was answered before its fsync`);
  if (answered !== writes) failures.push(`the trace shows ${answered} responses to ${writes} writes`);
  return { figures: { writes: answered, syncs, 'responses before their fsync': early.length }, failures };
}

/** Sends the first half of the writes sequentially, and the rest concurrently, so that they share commits. */
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
  await forEachConcurrently(writes / 2, 1, one);
  await forEachConcurrently(writes / 2, 16, (index) => one(writes / 2 + index));
  client.close();
  await node.stop();
}
