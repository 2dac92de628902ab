/**
 * Archives the audit log again and again under load, and kills the command. Then the service itself deletes what a sink
 * has received. No entry may get lost.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '../client.ts';
import { environmentOf, firstKey, startNode } from '../crash/node.ts';
import { runCommand } from '../crash/operator.ts';
import { databaseTimeout } from '../retry.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const retention: Row = {
  name: 'retention',
  requirement:
    'the audit log is archived under load, with kill -9 of the command at any moment, or deleted by the service after its delivery: every acknowledged change is in the archives, the sink or the database, all of it verifies, and no change is rejected',
  databases: bothDatabases,
  run,
};

const lanes = 6;
/** The command is killed within this many milliseconds. */
const maxLife = 400;

async function run(context: Context): Promise<Outcome> {
  const rounds = context.sized(30, 4);
  const program = [await context.executable()];
  const databaseUrl = await context.freshDatabase();
  const env = databaseTimeout(context);
  const node = await startNode(context, { databaseUrl, command: program, env });
  const folder = join(context.folder, 'archive');
  const archive = ['audit', 'archive', folder, '--older-than', '0'];
  const load = startLoad(context, node.url, firstKey(context));
  const failures: string[] = [];
  let killed = 0;
  for (let round = 1; round <= rounds; round++) {
    await load.more(context.sized(500, 60));
    if (round % 2 === 0) {
      const { code, out, err } = await runCommand(context, databaseUrl, [...program, ...archive], env);
      if (code !== 0) failures.push(`audit archive ended with ${code}: ${out}${err}`);
    } else if (
      await killCommand(context, environmentOf(context.folder, databaseUrl, env), [...program, ...archive])
    )
      killed += 1;
  }
  const { acknowledged, rejected, retried } = await load.stop();
  await node.stop();
  const rest = join(context.folder, 'rest.jsonl');
  for (const command of [
    ['audit', 'verify', folder, '--database'],
    ['audit', 'export', rest],
    ['audit', 'verify', folder, rest],
  ]) {
    const { code, out, err } = await runCommand(context, databaseUrl, [...program, ...command], env);
    if (code !== 0) failures.push(`${command.join(' ')} ended with ${code}: ${out}${err}`);
  }
  const files = readdirSync(folder).filter((name) => name.endsWith('.jsonl'));
  const archived = requestIds(files.map((name) => join(folder, name)));
  const known = archived.union(requestIds([rest]));
  const lost = acknowledged.filter((id) => !known.has(id));
  failures.push(...rejected);
  // The service deletes entries once a minute.
  const delivered = context.size === 'full' ? await deleteDelivered(context, program) : undefined;
  failures.push(...(delivered?.failures ?? []));
  return {
    figures: {
      rounds,
      'killed before its end': killed,
      'changes acknowledged': acknowledged.length,
      'of them archived': acknowledged.filter((id) => archived.has(id)).length,
      archives: files.length,
      'entries lost': lost.length,
      'retried (503)': retried,
      'changes rejected': rejected.length,
      ...delivered?.figures,
    },
    failures: [...lost.slice(0, 5).map((id) => `the entry of ${id} is lost`), ...failures].slice(0, 10),
  };
}

/** Lets the service delete old entries under load, several times. */
async function deleteDelivered(parent: Context, program: string[]): Promise<Outcome> {
  const context = { ...parent, folder: join(parent.folder, 'delivered') };
  mkdirSync(context.folder);
  const sink = join(context.folder, 'sink.jsonl');
  const sinks = join(context.folder, 'sinks.json');
  writeFileSync(sinks, JSON.stringify({ sinks: [{ name: 'file', type: 'file', path: sink }] }));
  const databaseUrl = await context.freshDatabase();
  const env = { ...databaseTimeout(context), SALLYPORT_SINKS_FILE: sinks };
  const command = { databaseUrl, command: program, env: { ...env, SALLYPORT_AUDIT_RETENTION: '1s' } };
  const node = await startNode(context, command);
  const load = startLoad(context, node.url, firstKey(context));
  const deletions = () => {
    const said = readFileSync(join(context.folder, 'said.log'), 'utf8');
    return said.split('deleted audit entries that were delivered').length - 1;
  };
  while (deletions() < 3) await load.more(500);
  const { acknowledged, rejected } = await load.stop();
  await node.stop();
  const rest = join(context.folder, 'rest.jsonl');
  const failures = [...rejected];
  for (const args of [
    ['audit', 'verify', '--database'],
    ['audit', 'export', rest],
  ]) {
    const { code, out, err } = await runCommand(context, databaseUrl, [...program, ...args], env);
    if (code !== 0) failures.push(`${args.join(' ')} ended with ${code}: ${out}${err}`);
  }
  const stored = requestIds([rest]);
  const known = stored.union(requestIds(existsSync(sink) ? [sink] : []));
  const lost = acknowledged.filter((id) => !known.has(id));
  return {
    figures: {
      'deleted by the service': acknowledged.filter((id) => !stored.has(id)).length,
      'of them not delivered': lost.length,
    },
    failures: [...lost.map((id) => `the entry of ${id} was deleted and not delivered`), ...failures],
  };
}

/** Starts the command and kills it after a random time. Returns whether it was still running. */
async function killCommand(
  context: Context,
  env: ReturnType<typeof environmentOf>,
  command: string[],
): Promise<boolean> {
  const child = Bun.spawn(command, {
    cwd: context.folder,
    env,
    stdio: ['ignore', 'ignore', 'ignore'],
  });
  await Promise.race([child.exited, Bun.sleep(context.random.below(maxLife))]);
  const running = child.exitCode === null;
  child.kill('SIGKILL');
  await child.exited;
  return running;
}

/** Changes an application from several connections. Every change has its own request id. */
function startLoad(context: Context, url: string, key: string) {
  const client = new Client(url);
  const acknowledged: string[] = [];
  const rejected: string[] = [];
  let [sent, retried, stopped] = [0, 0, false];
  const send = async (method: string, path: string, body: object) => {
    const id = `retention-${sent++}`;
    const { status, text } = await client.call(method, path, {
      key,
      body,
      headers: [`SVC-REQUEST-ID: ${id}`],
    });
    if (status < 300) acknowledged.push(id);
    else if (status === 503) retried++;
    else rejected.push(`${method} returned ${status}: ${text}`);
    return { status, text };
  };
  const lane = async () => {
    const body = { name: 'an application', type: 'private', permissions: ['token:read'] };
    let reply = await send('POST', '/applications', body);
    while (reply.status === 503) reply = await send('POST', '/applications', body);
    const created = JSON.parse(reply.text) as { id: string; key: string };
    context.secrets.add(created.key);
    while (!stopped && rejected.length === 0)
      await send('PUT', `/applications/${created.id}`, { ...body, name: `name ${sent}` });
  };
  const running = Promise.all(Array.from({ length: lanes }, lane));
  return {
    /** Resolves after this many more acknowledged changes. */
    more: async (count: number) => {
      const end = acknowledged.length + count;
      while (acknowledged.length < end && rejected.length === 0) await Bun.sleep(5);
    },
    stop: async () => {
      stopped = true;
      await running;
      client.close();
      return { acknowledged, rejected, retried };
    },
  };
}

/** The request ids of all entries in exports. */
function requestIds(paths: readonly string[]): Set<string> {
  const text = paths.map((path) => readFileSync(path, 'utf8')).join('');
  return new Set(text.match(/retention-\d+/g) ?? []);
}
