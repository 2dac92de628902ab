/** The audit log itself: bytes per entry, sealing, verification, and reading it while a backlog is sealed. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newTenant } from '../../src/operations/bootstrap.ts';
import type { OpenedStore } from '../../src/store/open.ts';
import type { NewEntry } from '../../src/store/store.ts';
import { compare, type Effort, figure, seriesOf, underLoad } from '../compare.ts';
import type { Environment } from '../environment.ts';
import { openFilledStore } from '../fill.ts';
import { costRow, maxRow, type Row } from '../report.ts';
import { masterKey, processorTime, requestBytes, root, startService } from '../servers.ts';
import { query, tableBytes } from './storage.ts';

type DatabaseName = 'SQLite' | 'PostgreSQL';

/** Entries that wait while the log is read, and entries that are verified. */
const million = 1_000_000;
/** Seconds of CPU time that verifying a million entries took before the log had segments. */
const verifyBefore = 165;

/** An empty database, and a folder for files. */
interface Target {
  readonly name: DatabaseName;
  readonly url: string;
  /** The process of PostgreSQL. */
  readonly server: number | undefined;
  readonly folder: string;
}

export async function auditLogRows(
  environment: Environment,
  name: DatabaseName,
  effort: Effort,
): Promise<Row[]> {
  const count = effort.quick ? 60_000 : million;
  const rows: Row[] = [];
  for (const measure of [sizeRows, sealRows, verifyRow, retentionRow, backlogRow]) {
    const folder = mkdtempSync(join(tmpdir(), 'sallyport-audit-'));
    const onSqlite = name === 'SQLite';
    const url = onSqlite ? `sqlite:${join(folder, 'sallyport.db')}` : await environment.database();
    const server = onSqlite ? undefined : environment.postgres.pid;
    try {
      rows.push(...(await measure({ name, url, server, folder }, count, effort)));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  return rows;
}

const applications = Array.from({ length: 20 }, () => crypto.randomUUID());

/** An entry about a revealing read, as the service writes it. */
function entryOf(tenantId: string, number: number, at: number): NewEntry {
  const id = applications[number % applications.length] as string;
  return {
    tenantId,
    at,
    actor: { kind: 'application', id, application_id: id },
    from: { ip: `10.0.${number % 7}.${number % 250}`, user_agent: 'node' },
    request_id: crypto.randomUUID(),
    operation: 'token.read',
    resource: { ids: [crypto.randomUUID()], container: `/customers/${number % 500}/` },
    decision: { transform: 'reveal', rule: { of: 'application', rule: 0 } },
    result: 'success',
  };
}

/** Writes entries in batches of one tenant each, `perSecond` with the times of a second. */
async function write(
  { store }: OpenedStore,
  tenants: readonly string[],
  count: number,
  perSecond = 1000,
  start = Date.now(),
) {
  for (let written = 0; written < count; ) {
    const tenant = tenants[Math.floor(written / 1000) % tenants.length] as string;
    const batch = Array.from({ length: Math.min(1000, count - written) }, (_, at) => {
      const number = written + at;
      return entryOf(tenant, number, start + Math.floor((number * 1000) / perSecond));
    });
    await store.audit.write(batch);
    written += batch.length;
  }
}

async function newTenants({ maintenance }: OpenedStore, count: number): Promise<string[]> {
  const tenants = Array.from({ length: count }, () => newTenant('bench', Date.now()));
  for (const tenant of tenants) await maintenance.tenants.create(tenant);
  return tenants.map(({ id }) => id);
}

/** Entries of a tenant are sealed every five seconds, so a segment has five times as many as are written per second. */
async function sizeRows({ name, url }: Target, count: number): Promise<Row[]> {
  const opened = await openFilledStore(url);
  const [tenant] = (await newTenants(opened, 1)) as [string];
  const rows: Row[] = [];
  for (const { perSecond, max } of [
    { perSecond: 100, max: 500 },
    { perSecond: 1, max: 900 },
  ]) {
    const perSegment = 5 * perSecond;
    const segments = Math.min(500, Math.ceil(count / perSegment));
    const before = await logBytes(url);
    for (let sealed = 0; sealed < segments; sealed++) {
      await write(opened, [tenant], perSegment, perSecond);
      await opened.maintenance.audit.seal();
    }
    const bytes = ((await logBytes(url)) - before) / (segments * perSegment);
    const json = JSON.stringify(entryOf(tenant, 0, 0)).length;
    const spec = {
      group: 'audit',
      work: `a sealed entry of a tenant with ${perSecond} per second, ${name}`,
      baseline: 'its JSON',
      unit: 'bytes',
      max,
    };
    rows.push(maxRow(spec, figure([bytes]), figure([json])));
  }
  await opened.close();
  return rows;
}

async function logBytes(url: string): Promise<number> {
  return (await tableBytes(url, 'audit_segments')) + (await tableBytes(url, 'audit_index'));
}

async function sealRows({ name, url }: Target, count: number): Promise<Row[]> {
  const opened = await openFilledStore(url);
  const rows: Row[] = [];
  for (const { tenants, of, max } of [
    { tenants: 8, of: 'eight tenants', max: 100 },
    { tenants: 1, of: 'one tenant', max: 200 },
  ]) {
    const ids = await newTenants(opened, tenants);
    const entries = count / 10;
    const began = performance.now();
    await write(opened, ids, entries);
    const written = performance.now();
    const sealed = await opened.maintenance.audit.seal();
    const perEntry = (milliseconds: number, number: number) => figure([(1000 * milliseconds) / number]);
    const spec = {
      group: 'audit',
      work: `seal an entry of ${of}, ${name}`,
      baseline: 'writing it, by one process',
      unit: 'µs',
      max,
    };
    rows.push(
      maxRow(spec, perEntry(performance.now() - written, sealed), perEntry(written - began, entries)),
    );
  }
  await opened.close();
  return rows;
}

/** The CPU time of `audit verify` and of PostgreSQL. */
async function verifyRow({ name, url, server, folder }: Target, count: number): Promise<Row[]> {
  const opened = await openFilledStore(url);
  await write(opened, await newTenants(opened, 4), count);
  await opened.maintenance.audit.seal();
  await opened.close();
  const onServer = () => (server === undefined ? 0 : processorTime(server));
  const before = onServer();
  const env = { DATABASE_URL: url, SALLYPORT_MASTER_KEY: masterKey, SALLYPORT_DATA_DIR: folder };
  const command = [process.execPath, '--no-env-file', join(root, 'src/main.ts'), 'audit', 'verify', '--json'];
  const child = Bun.spawn(command, { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] });
  const verdict = await new Response(child.stdout).json();
  await child.exited;
  if (!verdict.ok || verdict.entries < count) throw new Error('the log was not verified');
  const own = Number(child.resourceUsage()?.cpuTime.total ?? 0);
  const seconds = ((own + onServer() - before) / 1e6) * (million / verdict.entries);
  const spec = {
    group: 'audit',
    work: `audit verify of a million entries, ${name}`,
    baseline: 'a log without segments',
    unit: 's of CPU time',
    max: verifyBefore / 5,
  };
  return [maxRow(spec, figure([seconds]), figure([verifyBefore]))];
}

/** The CPU time of this process and of PostgreSQL for the retention, which also verifies what it deletes. */
async function retentionRow({ name, url, server }: Target, count: number): Promise<Row[]> {
  const opened = await openFilledStore(url);
  const tenants = await newTenants(opened, 8);
  await write(opened, tenants, count, 1000, Date.now() - 100 * 86_400_000);
  await opened.maintenance.audit.seal();
  const onServer = () => (server === undefined ? 0 : processorTime(server));
  const before = onServer();
  const own = process.cpuUsage();
  const retention = { age: 86_400_000, deliveredUpTo: async () => Number.MAX_SAFE_INTEGER, goOn: () => true };
  if ((await opened.maintenance.audit.deleteDelivered(retention)) < tenants.length)
    throw new Error('the log was not deleted');
  const { user, system } = process.cpuUsage(own);
  const cost = figure([(onServer() - before + user + system) / count]);
  await opened.close();
  const work = `delete a sealed entry, ${name}`;
  return [maxRow({ group: 'audit', work, baseline: 'nothing', unit: 'µs of CPU time' }, cost, figure([1]))];
}

/** The latency of `GET /logs` while the service seals the entries that waited at its start, and without such entries. */
async function backlogRow(target: Target, count: number, effort: Effort): Promise<Row[]> {
  const { name, url, folder } = target;
  const settings = { DATABASE_URL: url, SALLYPORT_MANAGEMENT_KEY_FILE: join(folder, 'management.key') };
  const seconds = effort.quick ? 1 : 15;
  const measure = async (what: string) => {
    const service = await startService(settings);
    const requests = ['/logs', '/logs?operation=token.read', `/logs?actor=${applications[0]}`].map((path) =>
      requestBytes('GET', path, service.key),
    );
    const plan = { port: service.port, requests, status: 200, rate: 50, connections: 8 };
    const candidate = underLoad(what, service.pid, plan);
    const { tenant_id } = await service.call<{ tenant_id: string }>('GET', '/applications/key');
    const waiting = what === 'sealing' ? await untilSealing(url) : 1;
    const series = await compare([candidate], { ...effort, rounds: 1, warmUp: 0.5, seconds });
    const left = await pending(url);
    await service.stop();
    if (what === 'sealing' && (left === 0 || left === waiting))
      throw new Error(`of ${waiting} entries, ${left} were left after the log was read`);
    return { series: seriesOf(series, what), tenant: tenant_id };
  };
  const { tenant } = await measure('first');
  const opened = await openFilledStore(url);
  await write(opened, [tenant], 5000);
  await opened.maintenance.audit.seal();
  const calm = await measure('calm');
  await write(opened, [tenant], count);
  await opened.close();
  const sealing = await measure('sealing');
  const spec = {
    group: 'audit',
    work: `GET /logs while ${count.toLocaleString('en-US')} entries are sealed, ${name}`,
    baseline: 'the same without unsealed entries',
    unit: 'ms (p99)',
  };
  return [costRow(spec, sealing.series, calm.series, ({ p99 = 0 }) => p99)];
}

/** Waits until the service has begun to seal the entries of another process. Returns the number of those left. */
async function untilSealing(url: string): Promise<number> {
  const before = await pending(url);
  for (let attempt = 0; attempt < 1200; attempt++) {
    const now = await pending(url);
    if (now < before) return now;
    await Bun.sleep(100);
  }
  throw new Error('the service did not begin to seal within two minutes');
}

async function pending(url: string): Promise<number> {
  const [row] = await query<{ count: number | string }>(url, 'select count(*) as count from audit_pending');
  return Number(row?.count);
}
