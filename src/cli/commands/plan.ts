/** What must happen so that a tenant has the Applications of a file, and nothing about how. */
import type { AccessRule, Application } from '../../../sdk/src/sallyport.ts';
import type { ApplicationCreate } from '../../domain/application.ts';
import type { Wanted } from './access-file.ts';
import { ruleInWords } from './app-view.ts';

export interface Update {
  readonly current: Application;
  readonly wanted: ApplicationCreate;
  /** In words. */
  readonly add: readonly string[];
  readonly remove: readonly string[];
}

export interface Plan {
  readonly create: readonly ApplicationCreate[];
  readonly update: readonly Update[];
  readonly delete: readonly Application[];
  /** Not in the file, and left alone. */
  readonly left: readonly Application[];
  readonly unchanged: number;
}

export interface Choices {
  /** Whether what the file does not name is deleted. */
  readonly prune: boolean;
  /** The Application whose key is in use, which is never deleted. */
  readonly own: string;
  readonly now: number;
}

/** What the file wants and cannot have; empty when there is nothing. */
export function conflicts(
  wanted: readonly Wanted[],
  current: readonly Application[],
  { now }: Pick<Choices, 'now'>,
): { line: number; message: string }[] {
  return wanted.flatMap(({ application, line }) => {
    const { name, type, expires_at } = application;
    const found = current.filter((one) => one.name === name);
    const [one] = found;
    const say = (message: string) => [{ line, message: `"${name}" ${message}` }];
    if (found.length > 1)
      return say(`is the name of ${found.length} Applications: ${found.map(({ id }) => id).join(', ')}`);
    if (!one)
      return expires_at !== undefined && expires_at <= now ? say('has an expires_at that is over') : [];
    if (one.type !== type) return say(`is ${one.type}, and cannot become ${type}: delete it first`);
    const ends = one.expires_at === undefined ? undefined : Date.parse(one.expires_at);
    if (ends !== expires_at)
      return say(`expires ${one.expires_at ?? 'never'}, and that cannot be changed: delete it first`);
    return [];
  });
}

export function planOf(
  wanted: readonly Wanted[],
  current: readonly Application[],
  { prune, own }: Choices,
): Plan {
  const byName = new Map(current.map((application) => [application.name, application]));
  const named = new Set(wanted.map(({ application }) => application.name));
  const others = current.filter(({ name }) => !named.has(name));
  const pairs = wanted.map(({ application }) => [application, byName.get(application.name)] as const);
  const updates = pairs.flatMap(([application, one]) => (one ? [difference(one, application)] : []));
  const update = updates.filter(({ add, remove }) => add.length + remove.length > 0);
  return {
    create: pairs.filter(([, one]) => !one).map(([application]) => application),
    // Its own comes last, since it may take away what the others need.
    update: update.toSorted((a, b) => Number(a.current.id === own) - Number(b.current.id === own)),
    delete: prune ? others.filter(({ id }) => id !== own) : [],
    left: prune ? others.filter(({ id }) => id === own) : others,
    unchanged: updates.length - update.length,
  };
}

/** The order of permissions, rules and origins means nothing. Origins that the file does not name stay. */
function difference(current: Application, wanted: ApplicationCreate): Update {
  const { allowed_origins = current.allowed_origins } = wanted;
  const [before, after] = [grantsIn(current), grantsIn({ ...wanted, allowed_origins })];
  const missing = (some: readonly string[], others: readonly string[]) =>
    some.filter((one) => !others.includes(one));
  return { current, wanted, add: missing(after, before), remove: missing(before, after) };
}

interface Granted {
  readonly permissions: readonly string[];
  readonly rules: readonly { readonly [K in keyof AccessRule]?: AccessRule[K] | undefined }[];
  readonly allowed_origins?: readonly string[] | undefined;
}

/** Each grant as a sentence; two grants are the same if their sentences are. */
export function grantsIn({ permissions, rules, allowed_origins }: Granted): string[] {
  return [
    ...new Set([
      ...permissions.map((permission) => `permission ${permission}`),
      ...rules.map(
        (rule) => `rule ${ruleInWords({ ...rule, permissions: rule.permissions?.toSorted() } as AccessRule)}`,
      ),
      ...(allowed_origins ?? []).map((origin) => `origin ${origin}`),
    ]),
  ];
}

export function isEmpty(plan: Plan): boolean {
  return plan.create.length + plan.update.length + plan.delete.length === 0;
}
