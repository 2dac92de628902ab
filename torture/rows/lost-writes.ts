/** A file system that keeps only what was synced: every copy of the files has what was acknowledged before the next sync. */
import { Database } from 'bun:sqlite';
import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '../client.ts';
import { buildProgram, type SourcePatch } from '../crash/executable.ts';
import { firstKey, startNode } from '../crash/node.ts';
import { forEachConcurrently } from '../fleet-clients.ts';
import type { Context, Outcome, Row } from '../row.ts';

export const lostWrites: Row = {
  name: 'lost-writes',
  requirement:
    'a power cut after any sync loses all that was written since: 0 outcomes of changes, refusals and replays included, that the files do not have',
  databases: ['SQLite'],
  run,
};

const root = join(import.meta.dirname, '../..');
const lanes = 6;

/**
 * Copies the log when a sync begins. The database file is copied at the start and after each checkpoint, while nothing
 * is written, as if all other writes to it were lost. Other processes copy: closing the file would drop its locks.
 */
const copies: readonly SourcePatch[] = [
  {
    file: /sqlite[\\/]log-sync\.ts$/,
    revise: (source) =>
      source.replace(
        'await watch(() => sync(file));',
        `const state = globalThis as unknown as { syncs?: number };
    const folder = process.env.COPIES as string;
    const number = (state.syncs ?? 0) + 1;
    const from = pathWithoutLinks(path);
    const copy = (name: string, to: string) => Bun.spawnSync(['cp', from + name, folder + '/' + to]);
    if (number === 1) copy('', 'file-1');
    copy('-wal', 'log-' + number);
    await watch(() => sync(file));
    state.syncs = number;`,
      ),
  },
  {
    file: /sqlite[\\/]checkpoints\.ts$/,
    revise: (source) =>
      source.replace('growth = 4000', 'growth = 200').replace(
        "await between(() => watch(() => send('last pass')));",
        `await between(async () => {
      await watch(() => send('last pass'));
      const { syncs = 0 } = globalThis as unknown as { syncs?: number };
      Bun.spawnSync(['cp', path, process.env.COPIES + '/file-' + (syncs + 1)]);
    });`,
      ),
  },
  {
    file: /pipeline[\\/]response\.ts$/,
    revise: (source) =>
      source.replace(
        "response.headers.set('SVC-REQUEST-ID', requestId);",
        `response.headers.set('SVC-REQUEST-ID', requestId);
  response.headers.set('X-Syncs', String((globalThis as unknown as { syncs?: number }).syncs ?? 0));`,
      ),
  },
];

/** What a response said about a token, and the syncs that had ended before it. */
interface Outcomes {
  readonly token: string;
  readonly status: number;
  readonly exists: boolean;
  readonly syncs: number;
}

async function run(context: Context): Promise<Outcome> {
  const folder = join(context.folder, 'copies');
  const program = join(context.folder, 'program');
  for (const each of [folder, program]) mkdirSync(each);
  context.defer(() => {
    for (const each of [folder, program]) rmSync(each, { recursive: true });
  });
  const command = [await buildProgram(root, program, copies)];
  const databaseUrl = await context.freshDatabase();
  const node = await startNode(context, { databaseUrl, command, env: { COPIES: folder } });
  const outcomes = await change(context, node.url);
  await node.kill();
  return examine(folder, outcomes, context.sized(40, 8));
}

/** Several clients create, repeat and delete the same tokens, so that some are told of a change of another. */
async function change(context: Context, url: string): Promise<Outcomes[]> {
  const outcomes: Outcomes[] = [];
  const client = new Client(url);
  const key = firstKey(context);
  await forEachConcurrently(context.sized(400, 60), lanes, async (index) => {
    const token = `token-${index}`;
    const send = async (method: string, exists: boolean, repeated: string) => {
      const body = { id: token, data: context.secrets.plaintext(token) };
      const headers = [`Idempotency-Key: ${method}-${token}-${repeated}`];
      const request = method === 'POST' ? { key, body, headers } : { key };
      const path = method === 'POST' ? '/tokens' : `/tokens/${token}`;
      const { status, head } = await client.call(method, path, request);
      outcomes.push({ token, status, exists, syncs: Number(/x-syncs: (\d+)/i.exec(head)?.[1]) });
    };
    const twice = (method: string, exists: boolean) =>
      Promise.all([send(method, exists, 'one'), send(method, exists, 'other')]);
    await twice('POST', true);
    await send('POST', true, 'one');
    if (index % 2 === 0) await twice('DELETE', false);
  });
  client.close();
  return outcomes;
}

/** Opens each copy of the log with the newest copy of the file before it. */
function examine(folder: string, outcomes: readonly Outcomes[], fewest: number): Outcome {
  const numbers = readdirSync(folder)
    .filter((name) => name.startsWith('log-'))
    .map((name) => Number(name.slice(4)));
  const failures: string[] = [];
  const statuses = new Set(outcomes.map(({ status }) => status));
  for (const status of [201, 204, 404, 409])
    if (!statuses.has(status)) failures.push(`no change was answered with ${status}`);
  let [file, files] = ['', 0];
  for (const number of numbers.toSorted((a, b) => a - b)) {
    const newer = join(folder, `file-${number}`);
    if (existsSync(newer)) [file, files] = [newer, files + 1];
    const opened = join(folder, 'opened');
    for (const part of ['', '-wal', '-shm']) rmSync(opened + part, { force: true });
    copyFileSync(file, opened);
    copyFileSync(join(folder, `log-${number}`), `${opened}-wal`);
    const db = new Database(opened);
    const [[verdict] = []] = db.query('pragma integrity_check').values();
    if (verdict !== 'ok') failures.push(`the copy at sync ${number} is damaged: ${verdict}`);
    const tokens = new Set(db.query('select id from tokens').values().flat());
    db.close();
    // A token that is deleted later exists in between.
    const known = outcomes.filter(({ syncs }) => syncs === number);
    for (const { token, status, exists } of known)
      if (tokens.has(token) !== exists)
        failures.push(
          `${token} ${exists ? 'is missing' : 'exists'} after sync ${number}, but ${status} was sent`,
        );
    const gone = new Set(outcomes.filter(({ exists }) => !exists).map(({ token }) => token));
    for (const { token, exists, syncs } of outcomes)
      if (exists && syncs <= number && !gone.has(token) && !tokens.has(token))
        failures.push(`${token} was lost after sync ${number}`);
  }
  if (files < 2) failures.push('no checkpoint was made');
  if (numbers.length < fewest) failures.push(`only ${numbers.length} syncs were made`);
  return {
    figures: {
      outcomes: outcomes.length,
      syncs: numbers.length,
      checkpoints: files - 1,
      'not on disk': failures.length,
    },
    failures: [...new Set(failures)].slice(0, 10),
  };
}
