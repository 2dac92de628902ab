import {
  type AccessRule,
  type Application,
  type ApplicationCreate,
  type ApplicationUpdate,
  type ApplicationWithKey,
  etagOf,
} from '../../../sdk/src/sallyport.ts';
import { formatDuration } from '../../domain/duration.ts';
import { parseKey } from '../../domain/key.ts';
import { type Call, option, type RemoteCommand } from '../command.ts';
import { CommandError, UsageError } from '../errors.ts';
import { keyToOption, withKey } from '../terminal/files.ts';
import {
  boundSessionsOption,
  confirm,
  expiryOption,
  fileOption,
  formatPairs,
  labelOption,
  labelsOf,
  networkOption,
  oldKeysOption,
  only,
  originOption,
  permissionOption,
  timeOf,
  yesOption,
} from '../terminal/options.ts';
import { fields, limitOption, printList, printTable } from '../terminal/print.ts';

const typeOption = option('type TYPE', 'Application type.', ['private', 'public', 'management']);

/** For the help of every command that takes an application. */
export const appArgument = 'APP is an id or a name. A name must be unique.';

export const commands: readonly RemoteCommand[] = [
  {
    usage: 'apps list',
    options: [
      typeOption,
      option('name TEXT', 'Filter by part of the name.'),
      option('id ID...', 'Filter by id; repeatable.'),
      option('expires-before TIME', 'Only applications that expire before this time.'),
      option('used-before TIME', 'Only applications created before this time and not used since.'),
      {
        ...labelOption,
        description: 'Only applications with this label, such as team=payments; repeatable.',
      },
      limitOption,
    ],
    summary: 'List applications, newest first.',
    details: 'A use appears in LAST USED within a minute.',
    examples: ['sallyport apps list --type public', 'sallyport apps list --label team=payments'],
    call: list,
  },
  {
    usage: 'apps create',
    options: [
      option('name TEXT', 'Application name.'),
      typeOption,
      permissionOption,
      originOption,
      boundSessionsOption,
      networkOption,
      labelOption,
      expiryOption,
      fileOption,
      keyToOption,
    ],
    summary: 'Create an application and print its key.',
    details: 'The key is shown only once. Pass access rules with --file.',
    examples: [
      'sallyport apps create --name "web shop" --type public --permission token:create',
      'sallyport apps create --file backend.json --key-to backend.key',
    ],
    call: create,
  },
  {
    usage: 'apps get <APP>',
    summary: 'Show an application.',
    details: `The etag is its current version, for \`apps update --if-match\`. ${appArgument}`,
    examples: ['sallyport apps get "web shop"'],
    call: get,
  },
  {
    usage: 'apps update <APP>',
    options: [
      option('name TEXT', 'New name.'),
      { ...permissionOption, description: 'Permission to grant; repeatable. Replaces the current list.' },
      originOption,
      boundSessionsOption,
      networkOption,
      { ...labelOption, description: 'Label, such as team=payments; repeatable. Replaces all labels.' },
      {
        ...expiryOption,
        description: 'New expiry, such as 2030-01-31T12:00:00Z or 90d, or "never" to remove it.',
      },
      fileOption,
      option(
        'if-match ETAG',
        'Change nothing if the application no longer has this version, as printed by `apps get`. Default: the `etag` in the file, if it has one.',
      ),
    ],
    summary: 'Update the name, permissions, rules, networks, labels or expiry of an application.',
    details: `Fields that you leave out are unchanged. ${appArgument}`,
    examples: [
      'sallyport apps update "web shop" --permission token:create --permission token:read',
      'sallyport apps update "web shop" --file rules.json --if-match 3',
    ],
    call: update,
  },
  {
    usage: 'apps regenerate <APP>',
    options: [oldKeysOption, keyToOption, yesOption],
    summary: 'Replace the key of an application.',
    details: `All older keys are revoked immediately, unless --old-keys-expire-at is given. ${appArgument}`,
    examples: [
      'sallyport apps regenerate backend --key-to backend.key',
      'sallyport apps regenerate backend --old-keys-expire-at 24h --key-to backend.key',
    ],
    call: regenerate,
  },
  {
    usage: 'apps delete <APP>',
    options: [yesOption],
    summary: 'Delete an application.',
    details: `Its keys and sessions are revoked immediately. ${appArgument}`,
    examples: ['sallyport apps delete "web shop"'],
    call: remove,
  },
  {
    usage: 'apps usage <APP>',
    summary: 'Show which grants an application uses and which it never used.',
    details: appArgument,
    examples: ['sallyport apps usage backend'],
    call: showUsage,
  },
  {
    usage: 'whoami',
    summary: 'Show the application that owns the current key.',
    examples: ['sallyport whoami --key-file data/management.key'],
    call: async (call) => show(call, await call.service.applications.current()),
  },
];

function list(call: Call): Promise<number> {
  const { options, service } = call;
  const filter = only({
    type: options.value('type') as Application['type'] | undefined,
    name: options.value('name') || undefined,
    id: options.values('id'),
    expires_before: options.value('expires-before') || undefined,
    used_before: options.value('used-before') || undefined,
    label: labelsOf(call),
  });
  return printList(call, service.applications.all(filter), {
    noun: 'applications',
    head: ['ID', 'TYPE', 'NAME', 'GRANTS', 'LAST USED', 'EXPIRES'],
    row: ({ id, type, name, last_used_at, expires_at, ...grants }) => [
      id,
      type,
      name,
      summarizeGrants(grants),
      last_used_at ?? 'never',
      expires_at ?? 'never',
    ],
  });
}

/** An item of a list has no ETag, so an application that was found by name is read again. */
async function get(call: Call): Promise<number> {
  const found = await findApplication(call, call.args[0] as string);
  const app = etagOf(found) === undefined ? await call.service.applications.get(found.id) : found;
  return show(call, app, undefined, await clientIdOf(call, app));
}

/** What workloads send as `client_id`. Undefined for an application that trusts no issuer of JWTs for keys. */
async function clientIdOf(
  { key }: Call,
  { id, type, trusted_issuers }: Application,
): Promise<string | undefined> {
  if (trusted_issuers === undefined || type === 'management') return undefined;
  const tag = parseKey((typeof key === 'function' ? await key() : key) ?? '')?.tag;
  return tag && `${tag}.${id}`;
}

async function create(call: Call): Promise<number> {
  const body = (await sentFields(call)) as unknown as ApplicationCreate;
  return withKey(call, () => call.service.applications.create(body), show);
}

async function update(call: Call): Promise<number> {
  const { etag, ...sent } = await sentFields(call);
  if (Object.keys(sent).length === 0)
    throw new UsageError(
      'nothing to update',
      'pass --name, --permission, --origin, --bound-sessions, --network, --label, --expires-at or --file',
    );
  const { applications } = call.service;
  const { id } = await findApplication(call, call.args[0] as string);
  const current = await applications.get(id);
  const { name, permissions, rules } = current;
  const body = { name, permissions, rules, ...sent } as ApplicationUpdate;
  const ifMatch = ifMatchOf(call, etag, current);
  return show(call, await applications.update(id, body, { ifMatch }));
}

/** `--if-match`, the `etag` of a file, or else the ETag of `current`. */
export function ifMatchOf({ options }: Call, inFile: unknown, current: object): string | undefined {
  const given = options.value('if-match') ?? inFile;
  return given === undefined ? etagOf(current) : `"${unquoted(String(given))}"`;
}

/** An ETag without the quotes of the header, which would have to be escaped in a shell. */
export function unquoted(etag: string): string {
  return etag.replace(/^"(.*)"$/, '$1');
}

/** The fields of `--file`. Options override them. */
async function sentFields(call: Call): Promise<Record<string, unknown>> {
  const { options, input } = call;
  return {
    ...(await input.body(options.value('file'))),
    ...only({
      name: options.value('name'),
      type: options.value('type'),
      permissions: options.values('permission'),
      allowed_origins: options.values('origin'),
      require_bound_sessions: requiresBound(options),
      allowed_networks: options.values('network'),
      labels: labelsOf(call),
      expires_at: timeOf(call, expiryOption),
    }),
  };
}

function requiresBound(options: Call['options']): boolean | undefined {
  const value = options.value(boundSessionsOption.name);
  return value === undefined ? undefined : value === 'required';
}

async function regenerate(call: Call): Promise<number> {
  const app = await findApplication(call, call.args[0] as string);
  const old_keys_expire_at = timeOf(call, oldKeysOption);
  const consequence =
    old_keys_expire_at === undefined ? 'are revoked immediately' : `expire at ${old_keys_expire_at}`;
  await confirm(call, `Replace the key of ${titleOf(app)}? All older keys ${consequence}.`);
  const body = only({ old_keys_expire_at });
  return withKey(call, () => call.service.applications.regenerate(app.id, body), show);
}

async function remove(call: Call): Promise<number> {
  const app = await findApplication(call, call.args[0] as string);
  await confirm(call, `Delete ${titleOf(app)}? Its keys and sessions are revoked immediately.`);
  await call.service.applications.delete(app.id);
  return call.printResult({ deleted: app.id }, `deleted ${app.id}`);
}

async function showUsage(call: Call): Promise<number> {
  const usage = await call.service.applications.usage(
    (await findApplication(call, call.args[0] as string)).id,
  );
  const used = usage.uses.map((use) => [use.permission, use.container, use.last_used_at, '']);
  const unused = usage.unused.map(({ permission, container, rule }) => [
    permission,
    container,
    'never',
    rule === 'permissions' ? 'permissions' : `rule ${rule}`,
  ]);
  const head = ['PERMISSION', 'CONTAINER', 'LAST USED', 'GRANTED BY'];
  return printTable(call, usage, 'grants', head, [...used, ...unused]);
}

export const idShape = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Finds an application by id or by exact name. Throws if none or several match. */
export async function findApplication({ service }: Call, wanted: string): Promise<Application> {
  if (idShape.test(wanted)) return service.applications.get(wanted);
  const found: Application[] = [];
  for await (const app of service.applications.all({ name: wanted })) {
    if (app.name === wanted) found.push(app);
  }
  if (found.length === 1) return found[0] as Application;
  if (found.length === 0)
    throw new CommandError(`no application named "${wanted}" (not_found)`, 'run `sallyport apps list`', 4);
  throw new UsageError(
    `${found.length} applications are named "${wanted}"`,
    `use an id: ${found.map(({ id }) => id).join(', ')}`,
  );
}

export function show(
  { printResult }: Call,
  app: Application | ApplicationWithKey,
  keyFile?: string,
  clientId?: string,
): number {
  const header = etagOf(app);
  const etag = header && unquoted(header);
  return printResult(
    {
      ...app,
      ...(etag && { etag }),
      ...(keyFile && { key_file: keyFile }),
    },
    fields([
      ['id', app.id],
      ['name', app.name],
      ['type', app.type],
      ['permissions', app.permissions.join(', ')],
      ...app.rules.map((rule, index) => [`rule ${index + 1}`, formatRule(rule, Date.now())] as const),
      ['origins', app.allowed_origins?.join(', ')],
      ['bound sessions', app.require_bound_sessions ? 'required' : undefined],
      ['networks', app.allowed_networks?.join(', ')],
      ['issuers', app.trusted_issuers?.map(({ issuer }) => issuer).join(', ')],
      ['client id', clientId],
      ['labels', app.labels && formatPairs(app.labels)],
      ['created', by(app.created_at, app.created_by)],
      ['modified', by(app.modified_at, app.modified_by)],
      ['expires', app.expires_at ?? 'never'],
      ['quarantine', app.quarantined_at && `since ${app.quarantined_at}`],
      ['last used', app.last_used_at],
      ['etag', etag],
      ['key', 'key' in app ? `${app.key} (shown only once)` : keyFile && `written to ${keyFile}`],
      ['key expires', 'key_expires_at' in app ? app.key_expires_at : undefined],
    ]),
  );
}

/** With `now`, it also says how long the rule lasts. */
export function formatRule(rule: AccessRule, now?: number): string {
  const { priority, permissions, container, conditions, destinations, transform, defaults, expires_at } =
    rule;
  const scope = [
    ...(container ? [`in ${container}`] : []),
    ...(conditions ?? []).map(({ attribute, operator, value }) => `where ${attribute} ${operator} ${value}`),
    ...(destinations ? [`at destinations ${destinations.join(', ')}`] : []),
  ];
  const note = rule.description ? ` (${rule.description})` : '';
  const shown = `as ${transform}${rule.require_purpose ? ' with a purpose' : ''}`;
  if (defaults) scope.push(`with defaults ${JSON.stringify(defaults)}`);
  const end = expires_at === undefined ? '' : ` until ${expires_at}${leftUntil(expires_at, now)}`;
  return `priority ${priority}: ${[permissions.join(', '), ...scope, shown].join(' ')}${end}${note}`;
}

function leftUntil(end: string, now: number | undefined): string {
  return now === undefined ? '' : ` (ends in ${formatDuration(Date.parse(end) - now)})`;
}

function by(at: string | undefined, actor: string | undefined): string | undefined {
  return at && actor ? `${at} by ${actor}` : at;
}

export function summarizeGrants({ permissions, rules }: Pick<Application, 'permissions' | 'rules'>): string {
  const [first = '', ...more] = [
    ...permissions,
    ...(rules.length > 0 ? [`${rules.length} rule${rules.length > 1 ? 's' : ''}`] : []),
  ];
  return more.length > 2 ? `${first} and ${more.length} more` : [first, ...more].join(', ');
}

export function titleOf({ name, type, id }: Application): string {
  return `${type} application "${name}" (${id})`;
}
