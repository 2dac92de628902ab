/** Computes and prints the changes that make the applications and destinations of a tenant match a file. */
import type {
  AccessRule,
  Application,
  ApplicationUpdate,
  Destination,
  Impact,
} from '../../../sdk/src/sallyport.ts';
import { never, type Setting, settingLines } from '../../domain/application.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { describeDestination } from '../../domain/describe-destination.ts';
import { escapeText } from '../../domain/escape.ts';
import { hasLabels, type Labels } from '../../domain/labels.ts';
import { only } from '../terminal/options.ts';
import type { Colorize } from '../terminal/terminal.ts';
import type { FileApplication, FileDestination, Wanted } from './access-file.ts';
import { formatRule } from './apps.ts';

interface Update {
  readonly current: Application;
  readonly wanted: FileApplication;
  /** The changes as text: grants, origins, bound sessions, networks, trusted issuers, labels, expiry and name. */
  readonly add: readonly string[];
  readonly remove: readonly string[];
}

export interface DestinationChange {
  readonly current: Destination | undefined;
  readonly wanted: FileDestination;
  readonly add: readonly string[];
  readonly remove: readonly string[];
}

export interface Plan {
  /** Destinations to create and update. They have no labels, so none is deleted. */
  readonly destinations: readonly DestinationChange[];
  readonly create: readonly FileApplication[];
  readonly update: readonly Update[];
  readonly delete: readonly Application[];
  /** Applications of the scope that are not in the files and are not deleted. */
  readonly unmanaged: readonly Application[];
  /** The number of applications that are neither in the files nor in their scope. */
  readonly outside: number;
  readonly unchanged: number;
}

/** The applications with the wanted name. If none has it, those with the previous name. */
function matching({ name, previous_name }: FileApplication, current: readonly Application[]): Application[] {
  const named = current.filter((one) => one.name === name);
  return named.length > 0 ? named : current.filter((one) => one.name === previous_name);
}

function countGrants({
  permissions,
  rules,
}: Pick<FileApplication, 'permissions' | 'rules'> | Application): number {
  return permissions.length + rules.length;
}

/** Finds changes that the API does not allow, such as another type, and names that are not unique. */
export function findConflicts(
  wanted: readonly Wanted[],
  current: readonly Application[],
  now: number,
): { file: string; line: number; message: string }[] {
  return wanted.flatMap(({ application, file, line }) => {
    const { name, previous_name, type, expires_at } = application;
    const found = matching(application, current);
    const [one] = found;
    const conflict = (message: string) => [{ file, line, message: `"${name}" ${message}` }];
    if (one && found.length > 1)
      return conflict(
        `is ambiguous: ${found.length} applications are named "${one.name}": ${found.map(({ id }) => id).join(', ')}`,
      );
    if (one?.name === name && current.some((other) => other.name === previous_name))
      return conflict(
        `exists, and so does its \`previous_name\` "${previous_name}": rename or delete one of them`,
      );
    if (one && one.type !== type)
      return conflict(`is ${one.type}; the type cannot be changed to ${type}: delete the application first`);
    if (countGrants(application) === 0 && !(one && countGrants(one) === 0))
      return conflict('has only rules that have ended: add a grant, or remove it');
    const isPast = typeof expires_at === 'number' && expires_at <= now;
    return isPast && expiryOf(application) !== one?.expires_at
      ? conflict('has an `expires_at` in the past')
      : [];
  });
}

/**
 * Which applications the files are about: those with all labels of one of `selectors`. Undefined for all applications
 * of the tenant, of which none can be deleted.
 */
export interface Scope {
  readonly selectors: readonly Labels[] | undefined;
  readonly prune: boolean;
}

/** `own` is the id of the application whose key the command uses. It is never deleted. */
export function makePlan(
  wanted: readonly Wanted[],
  current: readonly Application[],
  { selectors, prune }: Scope,
  own: string,
): Plan {
  const pairs = wanted.map(({ application }) => [application, matching(application, current)[0]] as const);
  const managed = new Set(pairs.map(([, one]) => one?.id));
  const missing = current.filter(({ id }) => !managed.has(id));
  const others = missing.filter(
    ({ labels }) => !selectors || selectors.some((selector) => hasLabels(labels, selector)),
  );
  const isDeleted = ({ id }: Application) => prune && selectors !== undefined && id !== own;
  const updates = pairs.flatMap(([application, one]) => (one ? [difference(one, application)] : []));
  const update = updates.filter(({ add, remove }) => add.length + remove.length > 0);
  return {
    destinations: [],
    create: pairs.filter(([, one]) => !one).map(([application]) => application),
    // The application whose key is used comes last: its update may remove permissions that other updates need.
    update: update.toSorted((a, b) => Number(a.current.id === own) - Number(b.current.id === own)),
    delete: others.filter(isDeleted),
    unmanaged: others.filter((one) => !isDeleted(one)),
    outside: missing.length - others.length,
    unchanged: updates.length - update.length,
  };
}

/** Ignores the order of lists. Fields other than name and grants stay unchanged if the file lacks them. */
function difference(current: Application, wanted: FileApplication, now?: number): Update {
  const expires_at = wanted.expires_at === undefined ? current.expires_at : expiryOf(wanted);
  const before = [...describe(current, now), `name ${current.name}`];
  const after = [...describe({ ...current, ...only(wanted), expires_at }, now), `name ${wanted.name}`];
  return { current, wanted, add: missing(after, before), remove: missing(before, after) };
}

function missing(some: readonly string[], others: readonly string[]): string[] {
  return some.filter((one) => !others.includes(one));
}

export function planDestinations(
  wanted: readonly FileDestination[],
  existing: readonly Destination[],
): DestinationChange[] {
  return wanted.flatMap((one) => {
    const current = existing.find(({ name }) => name === one.name);
    const header_names = one.headers ? Object.keys(one.headers) : (current?.header_names ?? []);
    const { client_certificate = current?.client_certificate } = one;
    const after = describeDestination({ ...one, header_names, client_certificate });
    const before = current ? describeDestination(current) : [];
    const [add, remove] = [missing(after, before), missing(before, after)];
    return add.length + remove.length > 0 ? [{ current, wanted: one, add, remove }] : [];
  });
}

/** The application with other references to destinations in its rules. */
export function withDestinations<A extends Pick<FileApplication, 'rules'> | Pick<Application, 'rules'>>(
  application: A,
  replace: (reference: string) => string,
): A {
  const rules = application.rules.map((rule) =>
    rule.destinations ? { ...rule, destinations: rule.destinations.map(replace) } : rule,
  );
  return { ...application, rules };
}

/** The expiry as the API returns it. Undefined without an expiry. */
export function expiryOf({ expires_at }: Pick<FileApplication, 'expires_at'>): string | undefined {
  return expires_at === undefined || expires_at === never ? undefined : timestamp(expires_at);
}

interface Described extends Partial<Record<Setting, unknown>> {
  readonly permissions: readonly string[];
  readonly rules: readonly {
    readonly [K in keyof AccessRule]?: (K extends 'defaults' ? object : AccessRule[K]) | undefined;
  }[];
  readonly expires_at?: string | undefined;
}

/** One description per grant, origin, network, label and other setting. Equal settings have equal descriptions. */
function describe({ permissions, rules, ...settings }: Described, now?: number): string[] {
  const { expires_at } = settings;
  return [
    ...new Set([
      ...permissions.map((permission) => `permission ${permission}`),
      ...rules.map(
        ({ permissions, destinations, ...rule }) =>
          `rule ${formatRule({ ...rule, permissions: permissions?.toSorted(), destinations: destinations?.toSorted() } as AccessRule, now)}`,
      ),
      ...settingLines(settings),
      ...(expires_at === undefined ? [] : [`expiry ${expires_at}`]),
    ]),
  ];
}

function describeNew(application: FileApplication, now?: number): string[] {
  return describe({ ...application, expires_at: expiryOf(application) }, now);
}

export function changesOf(plan: Plan): number {
  return plan.destinations.length + plan.create.length + plan.update.length + plan.delete.length;
}

export function isEmpty(plan: Plan): boolean {
  return changesOf(plan) === 0;
}

export function updateBody({ type: _, previous_name: __, ...wanted }: FileApplication): ApplicationUpdate {
  const expires_at = wanted.expires_at === never ? never : expiryOf(wanted);
  return only({ ...wanted, expires_at }) as ApplicationUpdate;
}

/** `impactOf` returns lines to print below an update. The text says how long rules last from `now` on; the plan does not. */
export function formatPlan(
  plan: Plan,
  colorize: Colorize,
  impactOf: (id: string) => readonly string[] = () => [],
  now = Date.now(),
): string {
  const unmanaged = plan.unmanaged.map(({ name, id }) => escapeText(`  ${name} (${id})`));
  const created = plan.create.length + plan.destinations.filter(({ current }) => !current).length;
  const updated = changesOf(plan) - created - plan.delete.length;
  const changed = (isNew: boolean, title: string, add: readonly string[], remove: readonly string[] = []) => [
    colorize(isNew ? 'green' : 'yellow', escapeText(`${isNew ? '+' : '~'} ${title}`)),
    ...remove.map((line) => escapeText(`    - ${line}`)),
    ...add.map((line) => escapeText(`    + ${line}`)),
  ];
  return [
    ...plan.destinations.flatMap(({ current, wanted: { name }, add, remove }) =>
      changed(!current, `destination ${name}`, add, remove),
    ),
    ...plan.create.flatMap((one) => changed(true, `${one.type} ${one.name}`, describeNew(one, now))),
    ...plan.update.flatMap(({ current, wanted }) => {
      const { add, remove } = difference(current, wanted, now);
      return [
        ...changed(false, `${current.type} ${current.name}`, add, remove),
        ...impactOf(current.id).map((line) => escapeText(`    ! ${line}`)),
      ];
    }),
    ...plan.delete.map(({ type, name, id }) => colorize('red', escapeText(`- ${type} ${name} (${id})`))),
    ...(unmanaged.length > 0 ? [colorize('dim', 'not in the file, unchanged:'), ...unmanaged] : []),
    ...(plan.outside > 0 ? [colorize('dim', `with other labels, unchanged: ${plan.outside}`)] : []),
    isEmpty(plan)
      ? `no changes: ${plan.unchanged} applications match the file`
      : `${created} to create, ${updated} to update, ${plan.delete.length} to delete, ${plan.unchanged} unchanged`,
  ].join('\n');
}

export function planToJson(plan: Plan, impacts: ReadonlyMap<string, Impact> = new Map()) {
  const brief = ({ id, name }: { id: string; name: string }) => ({ id, name });
  return {
    destinations: plan.destinations.map(({ current, wanted: { name }, add, remove }) => {
      return { name, ...only({ id: current?.id }), remove, add };
    }),
    create: plan.create.map((one) => ({ name: one.name, type: one.type, add: describeNew(one) })),
    update: plan.update.map(({ current, add, remove }) => ({
      ...brief(current),
      remove,
      add,
      ...only({ impact: impacts.get(current.id) }),
    })),
    delete: plan.delete.map(brief),
    unmanaged: plan.unmanaged.map(brief),
    outside: plan.outside,
    unchanged: plan.unchanged,
  };
}
