/**
 * The most expensive requests of keys with few permissions, against a database that makes them expensive. Measures the
 * CPU time of each, relative to an ordinary request, and the size of its response.
 */
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { runSql } from '../../test/support/test-store.ts';
import { type ClientResponse, written } from '../client.ts';
import type { Fleet } from '../fleet.ts';
import { type Clients, clientsOf, forEachConcurrently } from '../fleet-clients.ts';
import { processorTime, processorTimeWithChildren, residentMegabytes } from '../process-usage.ts';
import { databaseTimeout } from '../retry.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';
import {
  type Attack,
  attacksWith,
  deepestContainer,
  type Keys,
  makeKeys,
  ordinaryContainer,
} from '../worst/attacks.ts';
import { Filler } from '../worst/fill.ts';

/** Maximum slowdown of another caller during the attack. */
const longestWait = 40;
/** Maximum disk usage of the worst token, relative to an ordinary one. */
const mostDisk = 20;
/** Maximum growth of the process in megabytes. */
const mostGrowth = 300;

export const smallKeys: Row = {
  name: 'expensive-requests',
  requirement: `the worst lists, bodies, decisions and log queries of small keys, with 100,000 tokens and 400,000 log entries: none costs more than 8 to 50 ordinary requests of its kind, or 5 of its size, replies stay small, memory grows by less than ${mostGrowth} MB, and no other caller is denied`,
  databases: bothDatabases,
  alone: true,
  run,
};

async function run(context: Context): Promise<Outcome> {
  const fleet = await context.start({ nodes: 1, env: databaseTimeout(context) });
  const clients = clientsOf(context, fleet);
  const tenant = await fleet.tenant();
  const keys = await makeKeys(clients, tenant);
  const filler = new Filler(fleet.databaseUrl, context.database.name);
  context.defer(() => filler.clear());
  await filler.tokens(tenant.id, context.sized(100_000, 8000));
  await filler.log(tenant.id, context.sized(400_000, 10_000));
  const { pid } = fleet.at(0);
  const before = residentMegabytes(pid);
  const cost = await costOf(context, fleet);
  const failures: string[] = [];
  const attacks = attacksWith(context, fleet, keys, filler);
  await forEachConcurrently(100, 4, async () => {
    const body = { container: ordinaryContainer, data: 'x', mask: 'm', metadata: { a: 'b' } };
    await clients.must(0, 'POST', '/tokens', { key: keys.page, body });
  });

  const measured = [];
  for (const attack of attacks) measured.push(await judged(context, attack, cost, failures));
  const crowd = await crowded(context, clients, keys, attacks[0] as Attack, failures);
  const disk = await diskTimes(context, attacks, fleet.databaseUrl, failures);
  const pages = await largePages(context, clients, keys, failures);
  const grown = residentMegabytes(pid) - before;
  if (grown > mostGrowth) failures.push(`the process grew by ${grown.toFixed(0)} MB`);
  const worst = measured.toSorted((a, b) => b.times - a.times)[0];
  return {
    figures: {
      requests: attacks.length,
      [`times an ordinary request at most (${worst?.name})`]: Math.round(worst?.times ?? 0),
      'bytes in the largest error': Math.max(
        ...measured.filter(({ refused }) => refused).map(({ bytes }) => bytes),
      ),
      'times the disk of an ordinary token': disk,
      ...crowd,
      ...pages,
      'MB more at the end': Math.round(grown),
    },
    failures,
  };
}

/** Milliseconds of CPU time of the node and of the PostgreSQL server. */
async function costOf(context: Context, fleet: Fleet): Promise<() => number> {
  const { pid } = fleet.at(0);
  if (context.database.name === 'SQLite') return () => processorTime(pid);
  const [row] = await runSql<{ data_directory: string }>(fleet.databaseUrl, 'show data_directory');
  const file = readFileSync(join(row?.data_directory as string, 'postmaster.pid'), 'utf8');
  const server = Number(file.split('\n')[0]);
  return () => processorTime(pid) + processorTimeWithChildren(server);
}

/** Compares the attack with ordinary requests. Both are measured in turn, and the minimum of each counts. */
async function judged(context: Context, attack: Attack, cost: () => number, failures: string[]) {
  let [worst, ordinary] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  let answer: ClientResponse | undefined;
  const ordinaryAtOnce = context.sized(20, 6);
  for (let round = 0; round < context.sized(3, 2); round++) {
    const began = cost();
    for (let at = 0; at < ordinaryAtOnce; at++) await attack.like.send(round * ordinaryAtOnce + at);
    const between = cost();
    answer = await attack.send(round);
    worst = Math.min(worst, cost() - between);
    ordinary = Math.min(ordinary, (between - began) / ordinaryAtOnce);
  }
  const { name, mostBytes } = attack;
  const { status, text } = answer as ClientResponse;
  const [times, bytes] = [worst / ordinary, Buffer.byteLength(text)];
  if (status >= 500) failures.push(`${name}: answered with ${status}`);
  // The short run shares the CPU with other tests.
  if (times > attack.like.most * context.sized(1, 1.5))
    failures.push(
      `${name}: ${worst.toFixed(0)} ms of processor time, ${times.toFixed(0)} times an ordinary request`,
    );
  if (bytes > mostBytes) failures.push(`${name}: ${bytes} bytes in the reply`);
  return { name, times, bytes, refused: status >= 400 };
}

/** Measures another caller while one session attacks on twelve connections. */
async function crowded(
  context: Context,
  { call, application }: Clients,
  { owner }: Keys,
  attack: Attack,
  failures: string[],
): Promise<Outcome['figures']> {
  const other = await application(owner, { permissions: ['application:read'] });
  const count = context.sized(240, 48);
  const during = async (send: Attack['send']) => {
    const waits: number[] = [];
    let [denied, ended] = [0, false];
    const crowd = forEachConcurrently(count, 12, async (number) => {
      await send(number).catch(() => {});
    }).finally(() => {
      ended = true;
    });
    while (!ended) {
      const asked = performance.now();
      const answer = await call(0, 'GET', '/applications/key', { key: other.key }).catch(() => undefined);
      waits.push(performance.now() - asked);
      if (answer?.status !== 200) denied++;
      await Bun.sleep(5);
    }
    await crowd;
    return {
      median: waits.toSorted((a, b) => a - b)[Math.floor(waits.length / 2)] as number,
      denied,
      asked: waits.length,
    };
  };
  const [usual, attacked] = [await during(attack.like.send), await during(attack.send)];
  const times = attacked.median / usual.median;
  if (attacked.denied > 0) failures.push(`${attacked.denied} requests of another caller were denied`);
  if (context.size === 'full' && times > longestWait)
    failures.push(`another caller waited ${times.toFixed(0)} times as long as usual`);
  return { 'requests of others': attacked.asked, 'of them denied': attacked.denied };
}

/** Disk usage of the deepest token relative to an ordinary one. */
async function diskTimes(
  context: Context,
  attacks: readonly Attack[],
  databaseUrl: string,
  failures: string[],
): Promise<number> {
  const attack = attacks.find(({ name }) => name === deepestContainer) as Attack;
  const count = context.sized(200, 30);
  const size = async () => {
    const [row] = await runSql<{ bytes: unknown }>(databaseUrl, sizes[context.database.name]);
    return Number(row?.bytes);
  };
  const growth = async (send: Attack['send']) => {
    const before = await size();
    await forEachConcurrently(count, 4, async (number) => void (await send(number)));
    return (await size()) - before;
  };
  const [usual, deep] = [await growth(attack.like.send), await growth(attack.send)];
  const times = deep / Math.max(usual, 8192);
  if (times > mostDisk)
    failures.push(`${attack.name}: ${Math.round(deep / count)} bytes of disk for each token`);
  return Number(times.toFixed(1));
}

const sizes: Record<Context['database']['name'], string> = {
  SQLite: 'select page_count * page_size as bytes from pragma_page_count(), pragma_page_size()',
  PostgreSQL: 'select pg_database_size(current_database()) as bytes',
};

const mebibyte = 1024 * 1024;

/** Pages of the largest tokens, for one client that reads and six that do not. */
async function largePages(
  context: Context,
  { must, call, fleet }: Clients,
  { page }: Keys,
  failures: string[],
): Promise<Outcome['figures']> {
  const body = { container: '/page/large/', data: 'x'.repeat(mebibyte - 100) };
  await forEachConcurrently(context.sized(100, 20), 2, () => must(0, 'POST', '/tokens', { key: page, body }));
  const { text } = await call(0, 'GET', '/tokens?size=100', { key: page });
  if (text.length > 9 * mebibyte) failures.push(`a page has ${text.length} bytes`);
  const { url, pid } = fleet.at(0);
  const before = residentMegabytes(pid);
  const { hostname, port } = new URL(url);
  const sockets = Array.from({ length: 6 }, () => connect(Number(port), hostname).pause());
  for (const socket of sockets) socket.write(written('GET', '/tokens?size=100', { key: page }));
  let peak = before;
  for (let look = 0; look < context.sized(200, 30); look++) {
    peak = Math.max(peak, residentMegabytes(pid));
    await Bun.sleep(20);
  }
  for (const socket of sockets) socket.destroy();
  const grown = Math.round(peak - before);
  if (grown > mostGrowth) failures.push(`six clients that do not read took ${grown} MB`);
  return { 'MB in the largest page': Math.round(text.length / 1e6), 'MB for six that do not read': grown };
}
