/** Starts nodes as processes that share one database. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newTenant } from '../src/operations/bootstrap.ts';
import type { Maintenance } from '../src/store/maintenance.ts';
import { openStore } from '../src/store/open.ts';
import { freePort } from '../test/support/postgres.ts';
import { ProgramFolder, type RunningProgram } from '../test/support/program.ts';
import { generousTimeout, testMasterKey } from '../test/support/test-server.ts';
import { masterKeys } from '../test/support/test-store.ts';
import { retryUnavailable } from './retry.ts';
import type { Secrets } from './secrets.ts';

export interface FleetOptions {
  /** Number of nodes. Default: three. */
  readonly nodes?: number;
  /** URL of an existing database. */
  readonly databaseUrl?: string;
  readonly env?: Record<string, string>;
}

export interface Node extends RunningProgram {
  readonly number: number;
  readonly metricsUrl: string;
}

export interface Tenant {
  readonly id: string;
  /** The tenant's management key with all permissions. */
  readonly key: string;
}

export interface Fleet {
  readonly databaseUrl: string;
  readonly nodes: readonly Node[];
  /** The first tenant's management key, if these nodes created it. */
  readonly managementKey: string | undefined;
  /** Operator tasks on the same database. */
  readonly maintenance: Maintenance;
  /** The node with this number, modulo the number of nodes. */
  at(index: number): Node;
  tenant(): Promise<Tenant>;
  /** Stops the nodes and stores their logs. Idempotent. */
  close(): Promise<void>;
}

/** Disables rate limits, which have their own tests. */
export const unlimited = {
  SALLYPORT_EXCHANGES_PER_MINUTE: '0',
  SALLYPORT_SESSIONS_PER_MINUTE: '0',
  SALLYPORT_PENDING_SESSIONS_PER_APPLICATION: '0',
  SALLYPORT_TOKENS_PER_MINUTE: '0',
  SALLYPORT_SEARCHES_PER_MINUTE: '0',
  SALLYPORT_SEARCH_MISSES_PER_MINUTE: '0',
  SALLYPORT_TOKEN_BYTES_PER_MINUTE: '0',
  SALLYPORT_TOKEN_BYTES_PER_APPLICATION: '0',
  SALLYPORT_RATE_PER_KEY: '0',
  SALLYPORT_PROCESSING_PER_APPLICATION: '0',
  SALLYPORT_RATE_PER_ADDRESS: '0',
};

/** Data and logs of the nodes go to `folder`. */
export async function startFleet(
  databaseUrl: string,
  folder: string,
  secrets: Secrets,
  { nodes: count = 3, env = {} }: FleetOptions = {},
): Promise<Fleet> {
  mkdirSync(folder, { recursive: true });
  const program = new ProgramFolder();
  const started: Promise<Node>[] = [];
  for (let number = 0; number < count; number++) started.push(startNode(number));

  async function startNode(number: number): Promise<Node> {
    const metricsPort = freePort();
    const service = await program.serve({
      DATABASE_URL: databaseUrl,
      SALLYPORT_DATA_DIR: dataOf(number),
      SALLYPORT_MASTER_KEY: testMasterKey,
      SALLYPORT_METRICS_PORT: String(metricsPort),
      ...unlimited,
      SALLYPORT_ISSUER_NETWORKS: '127.0.0.1',
      ...env,
    });
    return { ...service, number, metricsUrl: `http://127.0.0.1:${metricsPort}/metrics` };
  }

  function dataOf(number: number): string {
    return join(folder, `node-${number}`);
  }

  function firstKey(): string | undefined {
    const files = started.map((_, number) => join(dataOf(number), 'management.key'));
    const file = files.find((path) => existsSync(path));
    return file && secrets.add(readFileSync(file, 'utf8').trim());
  }

  const all = await Promise.allSettled(started);
  const failed = all.find((each) => each.status === 'rejected');
  if (failed) {
    await program.close();
    throw failed.reason;
  }
  const nodes = await Promise.all(started);
  const endAll = () => {
    for (const node of nodes) node.kill('SIGKILL');
  };
  process.on('exit', endAll);
  const direct = await openStore(databaseUrl, {
    masters: masterKeys(testMasterKey),
    timeout: generousTimeout,
  });
  const { maintenance } = direct;
  let closed: Promise<void> | undefined;
  return {
    databaseUrl,
    nodes,
    managementKey: firstKey(),
    maintenance,
    at: (index) => nodes[index % nodes.length] as Node,
    tenant: () =>
      retryUnavailable(async () => {
        const tenant = newTenant('torture', Date.now());
        await maintenance.tenants.create(tenant);
        return { id: tenant.id, key: secrets.add(tenant.secret.reveal()) };
      }),
    close: () => {
      closed ??= close();
      return closed;
    },
  };

  async function close(): Promise<void> {
    await direct.close();
    for (const node of nodes) node.kill('SIGTERM');
    await Promise.all(nodes.map((node) => node.ended));
    process.off('exit', endAll);
    for (const { number, out, err } of nodes) {
      writeFileSync(join(folder, `said-${number}.log`), `${out()}\n${err()}`);
    }
    await program.close();
  }
}
