/** An Application that is being written. */
import type { Application } from '../../../sdk/src/sallyport.ts';
import type { Grants } from '../access/grants.ts';
import type { IconName } from '../frame/icons.tsx';

export interface Draft extends Grants {
  readonly name: string;
  readonly type: Application['type'];
  readonly origins: string;
  /** Milliseconds that it lives from its creation, or a moment, or for ever. */
  readonly expiry: string;
}

export const places: readonly {
  type: Application['type'];
  icon: IconName;
  title: string;
  text: string;
}[] = [
  {
    type: 'private',
    icon: 'server',
    title: 'On a server',
    text: 'A backend or a job that can keep a key secret.',
  },
  {
    type: 'public',
    icon: 'browser',
    title: 'In a browser or an app',
    text: 'Anyone can read its key, so it opens Sessions and little else.',
  },
  {
    type: 'management',
    icon: 'wrench',
    title: 'In a tool that manages Sallyport',
    text: 'An operator’s script, a pipeline, this console.',
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
    text: 'reads data in one place, in full',
    type: 'private',
    permissions: [],
    rules: [{ priority: 1, container: '/customers/', transform: 'reveal', permissions: ['token:read'] }],
  },
  {
    title: 'Browser collector',
    text: 'puts data into one place, and sees none of it',
    type: 'public',
    permissions: [],
    rules: [{ priority: 1, container: '/incoming/', transform: 'redact', permissions: ['token:create'] }],
  },
  {
    title: 'Provisioner',
    text: 'makes and changes other Applications',
    type: 'management',
    permissions: ['application:create', 'application:read', 'application:update'],
    rules: [],
  },
];

const day = 86_400_000;
export const lifetimes: readonly [label: string, value: string][] = [
  ['Never', ''],
  ['1 day', String(day)],
  ['7 days', String(7 * day)],
  ['30 days', String(30 * day)],
  ['90 days', String(90 * day)],
  ['1 year', String(365 * day)],
];

export const blank: Draft = {
  name: '',
  type: 'private',
  permissions: [],
  rules: [],
  origins: '',
  expiry: '',
};

export function draftOf(application: Application): Draft {
  const { name, type, permissions, rules, allowed_origins: origins = [] } = application;
  return { name, type, permissions, rules, origins: origins.join('\n'), expiry: '' };
}

/** The parts that were edited as they were edited, and the others as they are now. */
export function carriedOver(draft: Draft, before: Application, now: Application): Draft {
  const old = draftOf(before);
  const parts = ['name', 'permissions', 'rules', 'origins'] as const;
  const edited = parts.filter((part) => JSON.stringify(draft[part]) !== JSON.stringify(old[part]));
  return { ...draftOf(now), ...Object.fromEntries(edited.map((part) => [part, draft[part]])) };
}

export function originsOf({ type, origins }: Draft): string[] | undefined {
  if (type !== 'public') return undefined;
  return origins.split(/[\s,]+/).filter(Boolean);
}

export function endOf({ expiry }: Draft, now: number): string | undefined {
  if (expiry === '') return undefined;
  return new Date(/^\d+$/.test(expiry) ? now + Number(expiry) : expiry).toISOString();
}
