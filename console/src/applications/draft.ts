/** An application being created or edited. */
import type { Application, ApplicationUpdate, Permission } from '../../../sdk/src/sallyport.ts';
import { type ApplicationFields, type Difference, differences, type Grants } from '../access/grants.ts';
import type { IconName } from '../frame/icons.tsx';

export interface Draft extends Grants {
  readonly name: string;
  readonly type: Application['type'];
  readonly origins: string;
  readonly networks: string;
  /** The trusted issuers as JSON. Empty without issuers. */
  readonly issuers: string;
  readonly requireBoundSessions: boolean;
  /** Lifetime in milliseconds, a date, or `never`. Empty: never for a new application, otherwise unchanged. */
  readonly expiry: string;
}

export const runtimes: readonly {
  type: Application['type'];
  icon: IconName;
  title: string;
  text: string;
}[] = [
  {
    type: 'private',
    icon: 'server',
    title: 'On a server',
    text: 'A backend or job that can store a key securely.',
  },
  {
    type: 'public',
    icon: 'browser',
    title: 'In a browser or app',
    text: 'The key is public, so it is used mainly to start sessions.',
  },
  {
    type: 'management',
    icon: 'wrench',
    title: 'In an admin tool',
    text: 'A script, a CI pipeline or this console.',
  },
];

export interface Preset extends Grants {
  readonly title: string;
  readonly text: string;
  readonly type: Application['type'];
}

export const presets: readonly Preset[] = [
  {
    title: 'Backend reader',
    text: 'reads all data in one container',
    type: 'private',
    permissions: [],
    rules: [{ priority: 1, container: '/customers/', transform: 'reveal', permissions: ['token:read'] }],
  },
  {
    title: 'Browser collector',
    text: 'writes data to one container, cannot read it',
    type: 'public',
    permissions: [],
    rules: [{ priority: 1, container: '/incoming/', transform: 'redact', permissions: ['token:create'] }],
  },
  {
    title: 'Provisioner',
    text: 'creates and updates other applications',
    type: 'management',
    permissions: ['application:create', 'application:read', 'application:update'],
    rules: [],
  },
];

const day = 86_400_000;
export const lifetimes: readonly [label: string, value: string][] = [
  ['1 day', String(day)],
  ['7 days', String(7 * day)],
  ['30 days', String(30 * day)],
  ['90 days', String(90 * day)],
  ['1 year', String(365 * day)],
];

export const emptyDraft: Draft = {
  name: '',
  type: 'private',
  permissions: [],
  rules: [],
  origins: '',
  networks: '',
  issuers: '',
  requireBoundSessions: false,
  expiry: '',
};

/** The part of the grants that an application of this type can have. */
export function grantsForType(
  { permissions, rules }: Grants,
  type: Application['type'],
  known: readonly Permission[],
): Grants {
  const allowed = (name: string) =>
    type !== 'public' || known.find((permission) => permission.name === name)?.browser !== false;
  return {
    permissions: permissions.filter(allowed),
    rules: rules
      .map((rule) => ({
        ...rule,
        // Only rules of management applications can omit the container.
        ...(type !== 'management' && { container: rule.container ?? '/' }),
        permissions: rule.permissions.filter(allowed),
      }))
      .filter((rule) => rule.permissions.length > 0),
  };
}

/** Permissions and rules in `draft` that `next` lacks. Rules that have fewer permissions in `next` are listed too. */
export function removedGrants(draft: Grants, next: Grants): Difference[] {
  const named = ({ permissions, rules }: Grants) => ({
    name: '',
    permissions,
    rules: rules.map((rule) => ({ ...rule, container: rule.container ?? '/' })),
  });
  return differences(named(draft), named(next)).filter(({ kind }) => kind === 'removed');
}

export function draftOf(application: Application): Draft {
  const { name, type, permissions, rules } = application;
  const { allowed_origins: origins = [], allowed_networks: networks = [] } = application;
  const issuers = application.trusted_issuers ? JSON.stringify(application.trusted_issuers, null, 2) : '';
  const lists = { origins: origins.join('\n'), networks: networks.join('\n'), issuers };
  const requireBoundSessions = application.require_bound_sessions ?? false;
  return { name, type, permissions, rules, ...lists, requireBoundSessions, expiry: '' };
}

/** Applies the user's edits to the current version of the application. */
export function rebaseDraft(draft: Draft, before: Application, now: Application): Draft {
  const old = draftOf(before);
  const fields = [
    'name',
    'permissions',
    'rules',
    'origins',
    'networks',
    'issuers',
    'requireBoundSessions',
    'expiry',
  ] as const;
  const edited = fields.filter((field) => JSON.stringify(draft[field]) !== JSON.stringify(old[field]));
  return { ...draftOf(now), ...Object.fromEntries(edited.map((field) => [field, draft[field]])) };
}

export function originsOf({ type, origins }: Draft): string[] | undefined {
  if (type !== 'public') return undefined;
  return origins.split(/[\s,]+/).filter(Boolean);
}

export function networksOf({ type, networks }: Draft): string[] | undefined {
  if (type === 'public') return undefined;
  return networks.split(/[\s,]+/).filter(Boolean);
}

/** Undefined if the application cannot have any, or if the text is not a list of issuers with claims. */
export function issuersOf({ type, issuers }: Draft): Application['trusted_issuers'] {
  if (type === 'public') return undefined;
  try {
    const list: unknown = JSON.parse(issuers.trim() || '[]');
    return Array.isArray(list) && list.every((one) => one?.claims instanceof Object) ? list : undefined;
  } catch {
    return undefined;
  }
}

/** The body of an update. It has no expiry, because the lifetime of a draft begins when it is saved. */
export function updateOf(draft: Draft): ApplicationUpdate {
  const { name, type, permissions, rules, requireBoundSessions } = draft;
  const [origins, networks, issuers] = [originsOf(draft), networksOf(draft), issuersOf(draft)];
  return {
    name,
    permissions: [...permissions],
    rules: [...rules],
    ...(origins && { allowed_origins: origins }),
    ...(networks && { allowed_networks: networks }),
    ...(issuers && { trusted_issuers: issuers }),
    ...(type === 'public' && { require_bound_sessions: requireBoundSessions }),
  };
}

/** The fields of the application after the update, to compare them with the current ones. */
export function fieldsOf(draft: Draft, before: Application, now: number): ApplicationFields {
  return {
    ...draft,
    allowed_origins: originsOf(draft),
    allowed_networks: networksOf(draft),
    trusted_issuers: issuersOf(draft),
    require_bound_sessions: draft.type === 'public' && draft.requireBoundSessions,
    expires_at: draft.expiry === '' ? before.expires_at : expiryDate(draft, now),
  };
}

/** The expiry of the draft as a date. Undefined for `never` and for the empty text. */
export function expiryDate({ expiry }: Pick<Draft, 'expiry'>, now: number): string | undefined {
  if (expiry === '' || expiry === 'never') return undefined;
  return new Date(/^\d+$/.test(expiry) ? now + Number(expiry) : expiry).toISOString();
}
