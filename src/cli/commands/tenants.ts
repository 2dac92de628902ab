/** Tenants are the operator's: they are looked after on the machine, past the API, and each change is on record. */

import { byOperator, type Difference } from '../../domain/audit.ts';
import { Name } from '../../domain/common-fields.ts';
import { escapeText } from '../../domain/escape.ts';
import { mint } from '../../domain/key.ts';
import { managementOf, newTenant } from '../../operations/bootstrap.ts';
import type { Maintenance, Tenants, TenantTransaction } from '../../store/maintenance.ts';
import type { NewEntry, Tenant } from '../../store/store.ts';
import type { Invocation, LocalCommand } from '../command.ts';
import { Refused, UsageError } from '../errors.ts';
import { confirmedByName, yesOption } from '../terminal/confirm.ts';
import { progress } from '../terminal/list.ts';
import { withStore } from '../terminal/open-store.ts';
import { fields, table } from '../terminal/table.ts';

const either = 'TENANT is an id or a name. A name must be unique.';

export const tenantCommands: readonly LocalCommand[] = [
  {
    words: ['tenants', 'create'],
    takes: ['NAME'],
    summary: 'Create a tenant and print its first management key.',
    details: 'The key is shown only once.',
    examples: ['sallyport tenants create "Second shop"'],
    run: (invocation) => withStore(invocation, (maintenance) => create(maintenance, invocation)),
  },
  {
    words: ['tenants', 'list'],
    takes: [],
    summary: 'List tenants and their state, oldest first.',
    examples: ['sallyport tenants list'],
    run: (invocation) => withStore(invocation, (maintenance) => list(maintenance, invocation)),
  },
  {
    words: ['tenants', 'key'],
    takes: ['TENANT'],
    summary: 'Create another management key for a tenant and print it.',
    details: `Use it when every management key is lost. Existing keys stay valid. The key is shown only once. ${either}`,
    examples: ['sallyport tenants key "Second shop"'],
    run: (invocation) => withStore(invocation, (maintenance) => addKey(maintenance, invocation)),
  },
  {
    words: ['tenants', 'rename'],
    takes: ['TENANT', 'NAME'],
    summary: 'Rename a tenant.',
    details: either,
    examples: ['sallyport tenants rename "Second shop" "Third shop"'],
    run: (invocation) => withStore(invocation, (maintenance) => rename(maintenance, invocation)),
  },
  {
    words: ['tenants', 'disable'],
    takes: ['TENANT'],
    summary: 'Disable all keys and sessions of a tenant.',
    details: `Applies immediately. Data is unchanged. \`tenants enable\` undoes it. ${either}`,
    examples: ['sallyport tenants disable "Second shop"'],
    run: (invocation) =>
      withStore(invocation, (maintenance) => turn(maintenance, invocation, 'tenant.disable', 'disable')),
  },
  {
    words: ['tenants', 'enable'],
    takes: ['TENANT'],
    summary: 'Enable a disabled tenant.',
    details: either,
    examples: ['sallyport tenants enable "Second shop"'],
    run: (invocation) =>
      withStore(invocation, (maintenance) => turn(maintenance, invocation, 'tenant.enable', 'enable')),
  },
  {
    words: ['tenants', 'delete'],
    takes: ['TENANT'],
    options: [yesOption],
    summary: 'Delete a tenant and all its data permanently.',
    details: `Revokes its keys and destroys its data key first, then removes its rows. Run it again if it is interrupted. The audit log is not deleted. ${either}`,
    examples: ['sallyport tenants delete "Second shop"'],
    run: remove,
  },
];

async function create(maintenance: Maintenance, { args, json, print }: Invocation): Promise<void> {
  const tenant = newTenant(nameIn(args[0]), Date.now());
  await maintenance.changeTenants(async (tx) => {
    await tx.tenants.create(tenant);
    tx.record(entry('tenant.create', tenant.id));
  });
  const key = tenant.secret.reveal();
  print(json ? JSON.stringify({ tenant_id: tenant.id, key }) : `tenant  ${tenant.id}\nkey     ${key}`);
}

async function addKey(maintenance: Maintenance, { args, json, print }: Invocation): Promise<void> {
  const key = mint('mgt');
  const now = Date.now();
  const made = await maintenance.changeTenants(async (tx) => {
    const { id: tenant, name } = await changeable(tx.tenants, args[0]);
    const { id } = await tx.applications.create(tenant, managementOf(`${name}: management key`, now), key);
    tx.record({ ...entry('application.create', tenant), entity: { kind: 'application', id } });
    return { tenant_id: tenant, application_id: id };
  });
  const secret = key.secret.reveal();
  print(
    json
      ? JSON.stringify({ ...made, key: secret })
      : `tenant       ${made.tenant_id}\napplication  ${made.application_id}\nkey          ${secret}`,
  );
}

async function list(maintenance: Maintenance, { json, print, paint }: Invocation): Promise<void> {
  const tenants = await maintenance.tenants.list();
  if (json) return print(JSON.stringify(tenants));
  const rows = tenants.map((tenant) => [tenant.id, tenant.created_at, stateOf(tenant), tenant.name]);
  print(rows.length > 0 ? table(['ID', 'CREATED', 'STATE', 'NAME'], rows, paint) : 'none');
}

async function rename(maintenance: Maintenance, { args, json, print }: Invocation): Promise<void> {
  const name = nameIn(args[1]);
  const tenant = await maintenance.changeTenants(async (tx) => {
    const before = await changeable(tx.tenants, args[0]);
    await tx.tenants.rename(before.id, name);
    tx.record(entry('tenant.rename', before.id, { name: { from: before.name, to: name } }));
    return tx.tenants.get(before.id);
  });
  print(shown(tenant as Tenant, json));
}

/** What is so already stays so, and makes no entry. */
async function turn(
  maintenance: Maintenance,
  { args, json, print }: Invocation,
  operation: string,
  change: 'disable' | 'enable',
): Promise<void> {
  const tenant = await maintenance.changeTenants(async (tx) => {
    const before = await changeable(tx.tenants, args[0]);
    if ((before.disabled_at !== undefined) === (change === 'disable')) return before;
    await tx.tenants[change](before.id);
    tx.record(entry(operation, before.id));
    return tx.tenants.get(before.id);
  });
  print(shown(tenant as Tenant, json));
}

const batch = 500;

function remove(invocation: Invocation): Promise<number> {
  const { args, json, print, terminal } = invocation;
  let code = 0;
  const work = async (maintenance: Maintenance) => {
    const { id, name } = await found(maintenance.tenants, args[0]);
    const warning = `This deletes the tenant "${escapeText(name)}" (${id}) and everything that it has, for ever.`;
    if (!(await confirmedByName(invocation, warning, name))) {
      code = 1;
      return;
    }
    await maintenance.changeTenants((tx) => condemn(tx, id));
    const seen = progress(terminal);
    let total = 0;
    for (let done = false; !done; seen.say(`${total} rows removed`)) {
      const step = await maintenance.removeTenantRows(id, batch);
      total += step.removed;
      done = step.done;
    }
    seen.done();
    print(json ? JSON.stringify({ deleted: id }) : `deleted ${id}`);
  };
  return withStore(invocation, work).then(() => code);
}

/** The entry is about the moment from which there is no way back; taking it up again makes no other. */
async function condemn(tx: TenantTransaction, id: string): Promise<void> {
  if (await tx.tenants.markDeleted(id)) tx.record(entry('tenant.delete', id));
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

/** By its id, or by its whole name. */
async function found(tenants: Pick<Tenants, 'list'>, wanted = ''): Promise<Tenant> {
  const all = await tenants.list();
  const byId = all.find(({ id }) => id === wanted.toLowerCase());
  const named = byId ? [byId] : all.filter(({ name }) => name === wanted);
  const [tenant] = named;
  if (tenant && named.length === 1) return tenant;
  if (!tenant) throw new Refused(`there is no tenant "${wanted}"`, 'sallyport tenants list shows them');
  const ids = named.map(({ id }) => id).join(', ');
  throw new Refused(`there are ${named.length} tenants "${wanted}"`, `say which by its id: ${ids}`);
}

async function changeable(tenants: Tenants, wanted: string | undefined): Promise<Tenant> {
  const tenant = await found(tenants, wanted);
  if (tenant.deleted_at === undefined) return tenant;
  throw new Refused(
    `the tenant "${escapeText(tenant.name)}" is being deleted`,
    `sallyport tenants delete ${tenant.id} finishes it`,
  );
}

function nameIn(text: string | undefined): string {
  const name = Name.safeParse(text);
  if (name.success) return name.data;
  throw new UsageError(`NAME ${name.error.issues[0]?.message}`);
}

function stateOf({ disabled_at, deleted_at }: Tenant): string {
  if (deleted_at !== undefined) return 'being deleted';
  return disabled_at === undefined ? 'active' : 'disabled';
}

function shown(tenant: Tenant, json: boolean): string {
  if (json) return JSON.stringify(tenant);
  return fields([
    ['tenant', tenant.id],
    ['name', tenant.name],
    ['state', stateOf(tenant)],
  ]);
}
