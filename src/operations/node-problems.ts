/** Conditions in which a node serves, but an upgrade, a failover or a load can fail: for `doctor`, the log and a metric. */
import { accessSync, constants } from 'node:fs';
import { hostname, totalmem } from 'node:os';
import { dirname } from 'node:path';
import type { Config } from '../config/settings.ts';
import { newestSchema } from '../db/migrate.ts';
import type { ActiveNode } from '../store/nodes.ts';
import { type Check, warn } from './check.ts';
import { askNode } from './known-positions.ts';

/** The names of the checks that a node makes of itself. */
export const problemKinds = ['schema', 'memory', 'witness', 'address'] as const;

/** Bytes for a process: the program, its caches, and a quarter for large requests. */
const minMemory = 256 * 2 ** 20;

export type NodeConfig = Pick<Config, 'databaseUrl' | 'witness' | 'memory' | 'workers'>;

/** `others` are nodes that this machine should reach, `schema` is the version of the schema of the database. */
export async function findNodeProblems(
  config: NodeConfig,
  others: readonly ActiveNode[],
  schema: number,
): Promise<Check[]> {
  return [...schemaProblems(schema), ...memoryProblems(config), ...(await findFleetProblems(config, others))];
}

/** The problems of nodes that must recognize an old primary together. None on SQLite. */
export async function findFleetProblems(config: NodeConfig, others: readonly ActiveNode[]): Promise<Check[]> {
  if (config.databaseUrl.startsWith('sqlite:')) return [];
  const addresses = await Promise.all(others.map(addressProblem));
  return [...witnessProblems(config), ...addresses.flat()];
}

function schemaProblems(schema: number): Check[] {
  if (schema <= newestSchema) return [];
  const message = `the database has schema ${schema}, this program has ${newestSchema}: it serves, but does not start again`;
  return [warn('schema', message, 'deploy the newer version on this node, too')];
}

export function memoryProblems({ memory, workers }: NodeConfig): Check[] {
  const mebibytes = (bytes: number) => `${Math.floor(bytes / 2 ** 20)} MiB`;
  const available = process.constrainedMemory() || totalmem();
  const hint =
    'raise the memory limit, or lower SALLYPORT_MEMORY or SALLYPORT_WORKERS: see docs/operations/deploy.md';
  if (memory > available)
    return [
      warn(
        'memory',
        `SALLYPORT_MEMORY is ${mebibytes(memory)}, but the process may use ${mebibytes(available)}`,
        hint,
      ),
    ];
  if (memory / workers >= minMemory) return [];
  const message = `a process has ${mebibytes(memory / workers)} of memory, and needs ${mebibytes(minMemory)}`;
  return [warn('memory', message, hint)];
}

function witnessProblems({ witness }: NodeConfig): Check[] {
  const hint = 'set SALLYPORT_WITNESS to a file that all nodes can write: see docs/operations/postgresql.md';
  if (witness === undefined)
    return [
      warn(
        'witness',
        'no witness is set: a new node that reaches no other node would use an old primary',
        hint,
      ),
    ];
  try {
    accessSync(witness, constants.R_OK);
    accessSync(dirname(witness), constants.W_OK);
    return [];
  } catch (error) {
    const message = `the witness cannot be used: ${(error as Error).message}`;
    return [warn('witness', message, hint)];
  }
}

async function addressProblem({ name, url }: ActiveNode): Promise<Check[]> {
  // It listens in a moment.
  if (url === undefined) return [];
  const isElsewhere = !name.startsWith(`${hostname()} (`);
  const isLoopback = /^(localhost|127\..*|\[::1\])$/.test(new URL(url).hostname);
  const hint = 'set SALLYPORT_NODE_URL on that node to an address that other nodes reach, and open the port';
  if (isElsewhere && isLoopback)
    return [warn('address', `${name} has the address ${url}, where only it reaches it`, hint)];
  if ((await askNode(url)).length > 0) return [];
  return [warn('address', `${name} does not answer at ${url}`, hint)];
}
