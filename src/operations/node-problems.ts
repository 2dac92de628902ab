/** Conditions in which a node serves, but an upgrade, a failover or a load can fail: for `doctor`, the log and a metric. */
import { accessSync, constants } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import type { Config } from '../config/settings.ts';
import { newestSchema } from '../store/engine/migrate.ts';
import type { ActiveNode } from '../store/nodes.ts';
import { askNode } from './known-positions.ts';

export const problemKinds = ['schema', 'witness', 'address'] as const;

export interface NodeProblem {
  readonly kind: (typeof problemKinds)[number];
  readonly message: string;
  readonly hint: string;
}

/** `others` are nodes that this machine should reach, `schema` is the version of the schema of the database. */
export async function findNodeProblems(
  config: Pick<Config, 'databaseUrl' | 'witness'>,
  others: readonly ActiveNode[],
  schema: number,
): Promise<NodeProblem[]> {
  if (config.databaseUrl.startsWith('sqlite:')) return schemaProblems(schema);
  const addresses = await Promise.all(others.map(addressProblem));
  return [...schemaProblems(schema), ...witnessProblems(config), ...addresses.flat()];
}

function schemaProblems(schema: number): NodeProblem[] {
  if (schema <= newestSchema) return [];
  const message = `the database has schema ${schema}, this program has ${newestSchema}: it serves, but does not start again`;
  return [{ kind: 'schema', message, hint: 'deploy the newer version on this node, too' }];
}

function witnessProblems({ witness }: Pick<Config, 'witness'>): NodeProblem[] {
  const hint = 'set SALLYPORT_WITNESS to a file that all nodes can write: see docs/operations/postgresql.md';
  if (witness === undefined)
    return [
      {
        kind: 'witness',
        message: 'no witness is set: a new node that reaches no other node would use an old primary',
        hint,
      },
    ];
  try {
    accessSync(witness, constants.R_OK);
    accessSync(dirname(witness), constants.W_OK);
    return [];
  } catch (error) {
    const message = `the witness cannot be used: ${(error as Error).message}`;
    return [{ kind: 'witness', message, hint }];
  }
}

async function addressProblem({ name, url }: ActiveNode): Promise<NodeProblem[]> {
  // It listens in a moment.
  if (url === undefined) return [];
  const isElsewhere = !name.startsWith(`${hostname()} (`);
  const isLoopback = /^(localhost|127\..*|\[::1\])$/.test(new URL(url).hostname);
  const hint = 'set SALLYPORT_NODE_URL on that node to an address that other nodes reach, and open the port';
  if (isElsewhere && isLoopback)
    return [{ kind: 'address', message: `${name} has the address ${url}, where only it reaches it`, hint }];
  if ((await askNode(url)).length > 0) return [];
  return [{ kind: 'address', message: `${name} does not answer at ${url}`, hint }];
}
