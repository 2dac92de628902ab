/** Computes and prints the changes that make the applications of a tenant match a file. */
import type { AccessRule, Application } from '../../../sdk/src/sallyport.ts';
import type { ApplicationCreate } from '../../domain/application.ts';
import { escapeText } from '../../domain/escape.ts';
import type { Colorize } from '../terminal/terminal.ts';
import type { Wanted } from './access-file.ts';
import { formatRule } from './apps.ts';

interface Update {
  readonly current: Application;
  readonly wanted: ApplicationCreate;
  /** Descriptions of the grants. */
  readonly add: readonly string[];
  readonly remove: readonly string[];
}

export interface Plan {
  readonly create: readonly ApplicationCreate[];
  readonly update: readonly Update[];
  readonly delete: readonly Application[];
  /** Not in the file and not deleted. */
  readonly unmanaged: readonly Application[];
  readonly unchanged: number;
}

/** Changes that the API does not allow, such as a new type. */
export function findConflicts(
  wanted: readonly Wanted[],
  current: readonly Application[],
  now: number,
): { line: number; message: string }[] {
  return wanted.flatMap(({ application, line }) => {
    const { name, type, expires_at } = application;
    const found = current.filter((one) => one.name === name);
    const [one] = found;
    const conflict = (message: string) => [{ line, message: `"${name}" ${message}` }];
    if (found.length > 1)
      return conflict(`is the name of ${found.length} applications: ${found.map(({ id }) => id).join(', ')}`);
    if (!one)
      return expires_at !== undefined && expires_at <= now ? conflict('has an `expires_at` in the past') : [];
    if (one.type !== type)
      return conflict(`is ${one.type}; the type cannot be changed to ${type}: delete the application first`);
    const ends = one.expires_at === undefined ? undefined : Date.parse(one.expires_at);
    if (ends !== expires_at)
      return conflict(
        `expires ${one.expires_at ?? 'never'}; this cannot be changed: delete the application first`,
      );
    return [];
  });
}

/** `own` is the id of the application whose key is used. It is never deleted. */
export function makePlan(
  wanted: readonly Wanted[],
  current: readonly Application[],
  prune: boolean,
  own: string,
): Plan {
  const byName = new Map(current.map((application) => [application.name, application]));
  const named = new Set(wanted.map(({ application }) => application.name));
  const others = current.filter(({ name }) => !named.has(name));
  const pairs = wanted.map(({ application }) => [application, byName.get(application.name)] as const);
  const updates = pairs.flatMap(([application, one]) => (one ? [difference(one, application)] : []));
  const update = updates.filter(({ add, remove }) => add.length + remove.length > 0);
  return {
    create: pairs.filter(([, one]) => !one).map(([application]) => application),
    // The application whose key is used comes last, because its update may remove permissions that the others need.
    update: update.toSorted((a, b) => Number(a.current.id === own) - Number(b.current.id === own)),
    delete: prune ? others.filter(({ id }) => id !== own) : [],
    unmanaged: prune ? others.filter(({ id }) => id === own) : others,
    unchanged: updates.length - update.length,
  };
}

/** Compares without regard to order. Origins stay unchanged if the file does not list any. */
function difference(current: Application, wanted: ApplicationCreate): Update {
  const { allowed_origins = current.allowed_origins } = wanted;
  const [before, after] = [describeGrants(current), describeGrants({ ...wanted, allowed_origins })];
  const missing = (some: readonly string[], others: readonly string[]) =>
    some.filter((one) => !others.includes(one));
  return { current, wanted, add: missing(after, before), remove: missing(before, after) };
}

interface Grants {
  readonly permissions: readonly string[];
  readonly rules: readonly { readonly [K in keyof AccessRule]?: AccessRule[K] | undefined }[];
  readonly allowed_origins?: readonly string[] | undefined;
}

/** One description per grant. Two grants are equal if their descriptions are. */
function describeGrants({ permissions, rules, allowed_origins }: Grants): string[] {
  return [
    ...new Set([
      ...permissions.map((permission) => `permission ${permission}`),
      ...rules.map(
        (rule) => `rule ${formatRule({ ...rule, permissions: rule.permissions?.toSorted() } as AccessRule)}`,
      ),
      ...(allowed_origins ?? []).map((origin) => `origin ${origin}`),
    ]),
  ];
}

export function isEmpty(plan: Plan): boolean {
  return plan.create.length + plan.update.length + plan.delete.length === 0;
}

export function formatPlan(plan: Plan, colorize: Colorize): string {
  const unmanaged = plan.unmanaged.map(({ name, id }) => escapeText(`  ${name} (${id})`));
  return [
    ...plan.create.flatMap((one) => [
      colorize('green', escapeText(`+ ${one.type} ${one.name}`)),
      ...describeGrants(one).map((grant) => escapeText(`    + ${grant}`)),
    ]),
    ...plan.update.flatMap(({ current, add, remove }) => [
      colorize('yellow', escapeText(`~ ${current.type} ${current.name}`)),
      ...remove.map((grant) => escapeText(`    - ${grant}`)),
      ...add.map((grant) => escapeText(`    + ${grant}`)),
    ]),
    ...plan.delete.map(({ type, name, id }) => colorize('red', escapeText(`- ${type} ${name} (${id})`))),
    ...(unmanaged.length > 0 ? [colorize('dim', 'not in the file, unchanged:'), ...unmanaged] : []),
    isEmpty(plan)
      ? `no changes: ${plan.unchanged} applications match the file`
      : `${plan.create.length} to create, ${plan.update.length} to update, ${plan.delete.length} to delete, ${plan.unchanged} unchanged`,
  ].join('\n');
}

export function planToJson(plan: Plan) {
  const brief = ({ id, name }: { id: string; name: string }) => ({ id, name });
  return {
    create: plan.create.map((one) => ({ name: one.name, type: one.type, add: describeGrants(one) })),
    update: plan.update.map(({ current, add, remove }) => ({ ...brief(current), remove, add })),
    delete: plan.delete.map(brief),
    unmanaged: plan.unmanaged.map(brief),
    unchanged: plan.unchanged,
  };
}
