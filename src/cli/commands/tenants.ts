/** Operators manage tenants on the database directly, not through the API. Every change has an audit entry. */
import { resolve } from 'node:path';
import { readConfig } from '../../config/settings.ts';
import { NoSuchServer } from '../../db/citus.ts';
import { lacksPrivilege } from '../../db/postgres/postgres-errors.ts';
import { byOperator, type Difference, difference } from '../../domain/audit.ts';
import { Id, Name } from '../../domain/common-fields.ts';
import { parseDuration } from '../../domain/duration.ts';
import { escapeText } from '../../domain/escape.ts';
import { mint } from '../../domain/key.ts';
import { latestExpiry } from '../../domain/lifetime.ts';
import { ListedPurpose, maxPurposes } from '../../domain/purpose.ts';
import { managementOf, newTenant } from '../../operations/bootstrap.ts';
import type { Maintenance, Tenants } from '../../store/maintenance.ts';
import type { NewEntry, Tenant } from '../../store/store.ts';
import { MoveInterrupted, type MoveState, TenantExists } from '../../store/tenant-move.ts';
import { type Invocation, type LocalCommand, option } from '../command.ts';
import { CommandError, UsageError } from '../errors.ts';
import { databaseLabel, withStore } from '../terminal/database.ts';
import { requireFile } from '../terminal/files.ts';
import { confirmByName, yesOption } from '../terminal/options.ts';
import { fields, printTable, showProgress } from '../terminal/print.ts';
import type { Terminal } from '../terminal/terminal.ts';

const tenantArgument = 'TENANT is an id or a name. A name must be unique.';

export const commands: readonly LocalCommand[] = [
  {
    usage: 'tenants create <NAME>',
    summary: 'Create a tenant and print its first management key.',
    details: 'The key is shown only once.',
    examples: ['sallyport tenants create "Second shop"'],
    run: (invocation) => withStore(invocation, (maintenance) => create(maintenance, invocation)),
  },
  {
    usage: 'tenants list',
    summary: 'List tenants and their state, oldest first.',
    examples: ['sallyport tenants list'],
    run: (invocation) => withStore(invocation, (maintenance) => list(maintenance, invocation)),
  },
  {
    usage: 'tenants key <TENANT>',
    summary: 'Create another management key for a tenant and print it.',
    details: `Use it when every management key is lost. Existing keys stay valid. The key is shown only once. ${tenantArgument}`,
    examples: ['sallyport tenants key "Second shop"'],
    run: (invocation) => withStore(invocation, (maintenance) => addKey(maintenance, invocation)),
  },
  {
    usage: 'tenants rename <TENANT> <NAME>',
    summary: 'Rename a tenant.',
    details: tenantArgument,
    examples: ['sallyport tenants rename "Second shop" "Third shop"'],
    run: (invocation) => withStore(invocation, (maintenance) => rename(maintenance, invocation)),
  },
  {
    usage: 'tenants max-lifetime <TENANT> <DURATION>',
    summary: 'Limit the lifetime of the applications and keys of a tenant.',
    details: `DURATION is a time such as 90d or 24h, or "none" for no limit. Applies to new expiry times only; \`doctor\` lists the applications and keys that exceed it. ${tenantArgument}`,
    examples: ['sallyport tenants max-lifetime "Second shop" 90d'],
    run: (invocation) => withStore(invocation, (maintenance) => limitLifetime(maintenance, invocation)),
  },
  {
    usage: 'tenants rotate-search-key <TENANT>',
    summary: 'Replace the key of the search index of a tenant.',
    details: `Indexes all tokens again, while the service runs and searches find them. If it is interrupted, running nodes finish it. ${tenantArgument}`,
    examples: ['sallyport tenants rotate-search-key "Second shop"'],
    run: (invocation) => withStore(invocation, (maintenance) => rotateSearchKey(maintenance, invocation)),
  },
  {
    usage: 'tenants purposes <TENANT> <PURPOSES>',
    summary: 'Limit the purposes that the requests of a tenant may state.',
    details: `PURPOSES are words such as chargeback,support, separated by commas, or "any" for no limit. A request may add a reference: SVC-PURPOSE: chargeback 4711. Any other purpose is rejected. Requests without a purpose are not affected. ${tenantArgument}`,
    examples: ['sallyport tenants purposes "Second shop" chargeback,support'],
    run: (invocation) => withStore(invocation, (maintenance) => limitPurposes(maintenance, invocation)),
  },
  {
    usage: 'tenants disable <TENANT>',
    summary: 'Disable all keys and sessions of a tenant.',
    details: `Applies immediately. Data is unchanged. \`tenants enable\` undoes it. ${tenantArgument}`,
    examples: ['sallyport tenants disable "Second shop"'],
    run: (invocation) => withStore(invocation, (maintenance) => setState(maintenance, invocation, 'disable')),
  },
  {
    usage: 'tenants enable <TENANT>',
    summary: 'Enable a disabled tenant.',
    details: tenantArgument,
    examples: ['sallyport tenants enable "Second shop"'],
    run: (invocation) => withStore(invocation, (maintenance) => setState(maintenance, invocation, 'enable')),
  },
  {
    usage: 'tenants move <TENANT>',
    options: [
      option(
        'to FILE',
        'Settings of the other installation, one NAME=VALUE per line: DATABASE_URL, and its master key.',
      ),
      option('cancel', 'Serve the tenant here again. With --to, also delete its copy there.'),
      option('worker HOST:PORT', 'Move the tenant to this worker of the Citus cluster of this installation.'),
      yesOption,
    ],
    summary: 'Move a tenant with its keys and data to another installation, or to another worker.',
    details: `With --to, requests of the tenant get 503 while its rows are copied, then 421 here. Keys, sessions, tokens and the audit log stay valid. Then its rows are deleted here, except the audit log. If it is interrupted, run it again, or cancel it. The tenant cannot return to an installation in which it has been. With --worker, changes of the tenant and of others in its shard wait or get 503 until it has moved. ${tenantArgument}`,
    examples: [
      'sallyport tenants move "Second shop" --to eu.env',
      'sallyport tenants move "Second shop" --worker worker2.example.com:5432',
      'sallyport tenants move "Second shop" --cancel --to eu.env',
    ],
    run: move,
  },
  {
    usage: 'tenants delete <TENANT>',
    options: [yesOption],
    summary: 'Delete a tenant and all its data permanently.',
    details: `Revokes its keys and destroys its data key first, then removes its rows. Run it again if it is interrupted. The audit log is not deleted. ${tenantArgument}`,
    examples: ['sallyport tenants delete "Second shop"'],
    run: (invocation) => withStore(invocation, (maintenance) => remove(maintenance, invocation)),
  },
];

async function create(maintenance: Maintenance, { args, printResult }: Invocation): Promise<number> {
  const tenant = newTenant(parseName(args[0]), Date.now());
  await maintenance.changeTenants(async (tx) => {
    await tx.tenants.create(tenant);
    tx.record(entry('tenant.create', tenant.id));
  });
  const key = tenant.secret.reveal();
  return printResult({ tenant_id: tenant.id, key }, `tenant  ${tenant.id}\nkey     ${key}`);
}

async function addKey(maintenance: Maintenance, { args, printResult }: Invocation): Promise<number> {
  const now = Date.now();
  const created = await maintenance.changeTenants(async (tx) => {
    const { id: tenant, tag, name, max_lifetime } = await findChangeable(tx.tenants, args[0]);
    const maxLifetime = max_lifetime === undefined ? undefined : max_lifetime * 1000;
    const expiresAt = latestExpiry({ now, maxLifetime });
    const application = {
      ...managementOf(`${name}: management key`, now),
      expiresAt,
      keyExpiresAt: expiresAt,
    };
    const key = mint('mgt', tag);
    const { id } = await tx.applications.create(tenant, application, key);
    tx.record({ ...entry('application.create', tenant), entity: { kind: 'application', id } });
    return { tenant_id: tenant, application_id: id, key: key.secret.reveal() };
  });
  return printResult(
    created,
    `tenant       ${created.tenant_id}\napplication  ${created.application_id}\nkey          ${created.key}`,
  );
}

async function list(maintenance: Maintenance, invocation: Invocation): Promise<number> {
  const tenants = await maintenance.tenants.list();
  const rows = tenants.map((tenant) => [tenant.id, tenant.created_at, stateOf(tenant), tenant.name]);
  return printTable(invocation, tenants, 'tenants', ['ID', 'CREATED', 'STATE', 'NAME'], rows);
}

async function rename(maintenance: Maintenance, invocation: Invocation): Promise<number> {
  const name = parseName(invocation.args[1]);
  return change(maintenance, invocation, 'tenant.rename', (tenants, { id }) => tenants.rename(id, name));
}

async function limitLifetime(maintenance: Maintenance, invocation: Invocation): Promise<number> {
  const max = parseMaxLifetime(invocation.args[1]);
  return change(maintenance, invocation, 'tenant.max_lifetime', (tenants, { id }) =>
    tenants.limitLifetime(id, max),
  );
}

async function limitPurposes(maintenance: Maintenance, invocation: Invocation): Promise<number> {
  const purposes = parsePurposes(invocation.args[1]);
  return change(maintenance, invocation, 'tenant.purposes', (tenants, { id }) =>
    tenants.setPurposes(id, purposes),
  );
}

/** Without a difference, writes no audit entry. */
async function change(
  maintenance: Maintenance,
  invocation: Invocation,
  operation: string,
  act: (tenants: Tenants, before: Tenant) => Promise<unknown>,
): Promise<number> {
  const tenant = await maintenance.changeTenants(async (tx) => {
    const before = await findChangeable(tx.tenants, invocation.args[0]);
    await act(tx.tenants, before);
    const after = (await tx.tenants.get(before.id)) as Tenant;
    const changed = difference(before, after, ['name', 'max_lifetime', 'purposes', 'disabled_at']);
    if (Object.keys(changed).length > 0) tx.record(entry(operation, before.id, changed));
    return after;
  });
  return show(invocation, tenant);
}

function parsePurposes(text = ''): string[] | undefined {
  if (text === 'any') return undefined;
  const purposes = [...new Set(text.split(','))];
  for (const purpose of purposes) {
    const { error } = ListedPurpose.safeParse(purpose);
    if (error) throw new UsageError(`PURPOSES: "${escapeText(purpose)}" ${error.issues[0]?.message}`);
  }
  if (purposes.length > maxPurposes) throw new UsageError(`PURPOSES must be at most ${maxPurposes}`);
  return purposes;
}

function parseMaxLifetime(text = ''): number | undefined {
  if (text === 'none') return undefined;
  const duration = parseDuration(text);
  if (duration) return duration;
  throw new UsageError('DURATION must be a time such as 90d, 24h, 30m or 10s, or none');
}

/** If the tenant already has the state, changes nothing. */
function setState(
  maintenance: Maintenance,
  invocation: Invocation,
  to: 'disable' | 'enable',
): Promise<number> {
  return change(maintenance, invocation, `tenant.${to}`, async (tenants, { id, disabled_at }) => {
    if ((disabled_at !== undefined) !== (to === 'disable')) await tenants[to](id);
  });
}

/** Continues a rotation that was interrupted. */
async function rotateSearchKey(maintenance: Maintenance, invocation: Invocation): Promise<number> {
  const { id, rotated } = await maintenance.changeTenants(async (tx) => {
    const { id } = await findChangeable(tx.tenants, invocation.args[0]);
    const rotated = await tx.tenants.rotateSearchKey(id);
    if (rotated) tx.record(entry('tenant.rotate_search_key', id));
    return { id, rotated };
  });
  const progress = showProgress(invocation.terminal);
  let total = 0;
  for (let last = 1; last > 0; progress.update(`${total} tokens indexed`)) {
    last = await maintenance.reindexSearch();
    total += last;
  }
  progress.clear();
  const result = rotated ? 'rotated' : 'no key to rotate, or continued an earlier rotation';
  return invocation.printResult(
    { tenant_id: id, rotated, indexed: total },
    `${result}; ${total} tokens indexed`,
  );
}

function move(invocation: Invocation): Promise<number> {
  return withStore(invocation, async (source) => {
    const { id, name } = await findTenant(source.tenants, invocation.args[0]);
    const file = invocation.options.value('to');
    const isCanceled = invocation.options.on('cancel');
    const worker = invocation.options.value('worker');
    if (worker !== undefined) {
      if (file !== undefined || isCanceled)
        throw new UsageError('--worker cannot be used with --to or --cancel');
      return moveToWorker(invocation, source, worker);
    }
    if (file === undefined && isCanceled) return cancelMove(invocation, id, source);
    if (file === undefined)
      throw new UsageError(
        '--to or --worker is missing',
        'name a file with the settings of the other installation, or a worker of the Citus cluster',
      );
    requireFile(resolve(file));
    const config = readConfig({ envFile: resolve(file) });
    return withStore({ ...invocation, config }, async (target) => {
      if (isCanceled) return cancelMove(invocation, id, source, target);
      const to = databaseLabel(config.databaseUrl);
      await confirmByName(invocation, `This moves the tenant "${escapeText(name)}" (${id}) to ${to}.`, name);
      const rows = await moveTenant(source, target, id, invocation);
      return invocation.printResult({ moved: id, to, rows }, `moved ${id} with ${rows} rows to ${to}`);
    });
  });
}

async function moveToWorker(
  { args, terminal, printResult }: Invocation,
  source: Maintenance,
  worker: string,
): Promise<number> {
  const { id } = await findChangeable(source.tenants, args[0]);
  const progress = showProgress(terminal);
  progress.update('moving the shard of the tenant');
  // Before the move, so that an interrupted one has an entry, too.
  const record = (from: string) =>
    source.changeTenants(async (tx) =>
      tx.record(entry('tenant.move_to_worker', id, { worker: { from, to: worker } })),
    );
  try {
    const from = await source.moveToServer(id, worker, record);
    const text = from === worker ? `${id} is on ${worker} already` : `moved ${id} from ${from} to ${worker}`;
    return printResult({ moved: id, from, to: worker }, text);
  } catch (error) {
    if (error instanceof NoSuchServer) throw new CommandError(error.message);
    if (!lacksPrivilege(error)) throw error;
    throw new CommandError(
      'the role of DATABASE_URL may not move rows',
      'use the URL of the role that owns the tables',
    );
  } finally {
    progress.clear();
  }
}

/** A copy for a later freeze than the one that is canceled is not deleted: another process may have opened it. */
async function cancelMove(
  { printResult }: Invocation,
  id: string,
  source: Maintenance,
  target?: Maintenance,
): Promise<number> {
  const copy = await target?.moves.state(id);
  const isCanceled = await source.moves.cancel(id);
  if (isCanceled) await source.changeTenants(async (tx) => tx.record(entry('tenant.move_cancel', id)));
  const stays = (await source.moves.state(id))?.movedAt === undefined;
  const isDeleted = stays && (await target?.moves.discard(id, copy?.movingAt)) === true;
  if (!isCanceled && !isDeleted)
    throw new CommandError('no move of this tenant can be canceled', 'run `sallyport tenants list`');
  const also = isDeleted ? ' and deleted its copy' : '';
  return printResult({ canceled: id, copy_deleted: isDeleted }, `canceled the move of ${id}${also}`);
}

const wrongTarget = 'check the settings in --to';

/** Continues a move that was interrupted. Returns the number of copied rows, without those of the audit log. */
async function moveTenant(
  source: Maintenance,
  target: Maintenance,
  id: string,
  { terminal }: Invocation,
): Promise<number> {
  const before = (await source.moves.state(id)) as MoveState;
  const progress = showProgress(terminal);
  let rows = 0;
  try {
    const arrived = await target.moves.state(id);
    const isCopied = arrived?.isArriving === true && arrived.movingAt === before.movingAt;
    const isOpen = arrived !== undefined && !arrived.isArriving && arrived.movedAt === undefined;
    if (before.movedAt !== undefined && !isCopied && !isOpen)
      throw new CommandError('the tenant was moved to another installation than this', wrongTarget);
    if (before.movedAt === undefined) {
      if (!isCopied) await target.moves.requireAbsent(id, before.tag);
      if (before.movingAt === undefined)
        await source.changeTenants(async (tx) => tx.record(entry('tenant.move', id)));
      progress.update('waiting for changes in progress');
      await source.moves.freeze(id, !isCopied);
      const tenant = await source.moves.read(id);
      if (!isCopied || tenant.movingAt !== before.movingAt) {
        const counts = await target.moves.receive(tenant, (table) => progress.update(`copying ${table}`));
        rows = Object.values(counts).reduce((sum, count) => sum + count, 0);
      }
      await source.moves.leave(id, tenant.movingAt);
    }
    if (await target.moves.open(id))
      await target.changeTenants(async (tx) => tx.record(entry('tenant.receive', id)));
  } catch (error) {
    if (error instanceof MoveInterrupted) throw new CommandError(error.message);
    if (!(error instanceof TenantExists)) throw error;
    throw new CommandError(`the other installation cannot receive the tenant: ${error.message}`, wrongTarget);
  } finally {
    progress.clear();
  }
  await source.tenants.markDeleted(id);
  await removeRows(source, terminal, id);
  return rows;
}

const batchSize = 500;

async function remove(maintenance: Maintenance, invocation: Invocation): Promise<number> {
  const { id, name } = await findTenant(maintenance.tenants, invocation.args[0]);
  await requireNotMoving(maintenance.tenants, id);
  const warning = `This permanently deletes the tenant "${escapeText(name)}" (${id}) and all its data.`;
  await confirmByName(invocation, warning, name);
  // In a separate transaction, so that no new change delays the deletion of the data key.
  await maintenance.tenants.disable(id);
  await maintenance.changeTenants(async (tx) => {
    // Resuming an interrupted deletion adds no entry.
    if (await tx.tenants.markDeleted(id)) tx.record(entry('tenant.delete', id));
  });
  await removeRows(maintenance, invocation.terminal, id);
  return invocation.printResult({ deleted: id }, `deleted ${id}`);
}

async function removeRows(maintenance: Maintenance, terminal: Terminal, id: string): Promise<void> {
  const progress = showProgress(terminal);
  let total = 0;
  for (let done = false; !done; progress.update(`${total} rows deleted`)) {
    const step = await maintenance.removeTenantRows(id, batchSize);
    total += step.removed;
    done = step.done;
  }
  progress.clear();
}

function entry(operation: string, tenant: string, difference?: Difference): NewEntry {
  return {
    tenantId: tenant,
    at: Date.now(),
    ...byOperator,
    operation,
    entity: { kind: 'tenant', id: tenant },
    ...(difference && { difference }),
  };
}

/** Finds a tenant by exact name, or by id, which works while other workers of a Citus cluster are lost. */
async function findTenant(tenants: Pick<Tenants, 'list' | 'get'>, wanted = ''): Promise<Tenant> {
  const byId = Id.safeParse(wanted).success ? await tenants.get(wanted.toLowerCase()) : undefined;
  const named = byId ? [byId] : (await tenants.list()).filter(({ name }) => name === wanted);
  const [tenant] = named;
  if (tenant && named.length === 1) return tenant;
  if (!tenant)
    throw new CommandError(`no tenant with the id or name "${wanted}"`, 'run `sallyport tenants list`');
  const ids = named.map(({ id }) => id).join(', ');
  throw new CommandError(`${named.length} tenants are named "${wanted}"`, `use an id: ${ids}`);
}

async function requireNotMoving({ isMoving }: Pick<Tenants, 'isMoving'>, id: string): Promise<void> {
  if (await isMoving(id))
    throw new CommandError(
      'the tenant is being moved to another installation',
      'run `sallyport tenants move` again to finish the move, or with --cancel',
    );
}

async function findChangeable(tenants: Tenants, wanted: string | undefined): Promise<Tenant> {
  const tenant = await findTenant(tenants, wanted);
  if (tenant.deleted_at === undefined) {
    await requireNotMoving(tenants, tenant.id);
    return tenant;
  }
  throw new CommandError(
    `the tenant "${escapeText(tenant.name)}" is being deleted`,
    `run \`sallyport tenants delete ${tenant.id}\` to finish the deletion`,
  );
}

function parseName(text: string | undefined): string {
  const name = Name.safeParse(text);
  if (name.success) return name.data;
  throw new UsageError(`NAME ${name.error.issues[0]?.message}`);
}

function stateOf({ disabled_at, deleted_at }: Tenant): string {
  if (deleted_at !== undefined) return 'being deleted';
  return disabled_at === undefined ? 'active' : 'disabled';
}

function show({ printResult }: Invocation, tenant: Tenant): number {
  const pairs = [
    ['tenant', tenant.id],
    ['name', tenant.name],
    ['state', stateOf(tenant)],
    ['max lifetime', tenant.max_lifetime === undefined ? undefined : `${tenant.max_lifetime} s`],
    ['purposes', tenant.purposes?.join(', ')],
  ] as const;
  return printResult(tenant, fields(pairs));
}
