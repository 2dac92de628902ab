import type { IconName } from './icons.tsx';

export interface Section {
  readonly path: string;
  readonly label: string;
  /** Label for narrow screens. */
  readonly short: string;
  readonly icon: IconName;
  /** The permission without which the page shows nothing. Undefined if it needs none. */
  readonly permission: string | undefined;
}

export const sections: readonly Section[] = [
  { path: 'overview', label: 'Overview', short: 'Overview', icon: 'overview', permission: undefined },
  {
    path: 'applications',
    label: 'Applications',
    short: 'Apps',
    icon: 'applications',
    permission: 'application:read',
  },
  { path: 'preview', label: 'Access preview', short: 'Preview', icon: 'preview', permission: undefined },
  { path: 'who', label: 'Who has access?', short: 'Who', icon: 'people', permission: 'access:review' },
  { path: 'sessions', label: 'Sessions', short: 'Sessions', icon: 'sessions', permission: 'session:read' },
  { path: 'tokens', label: 'Tokens', short: 'Tokens', icon: 'tokens', permission: 'token:read' },
  {
    path: 'destinations',
    label: 'Destinations',
    short: 'Proxy',
    icon: 'destinations',
    permission: 'destination:read',
  },
  { path: 'activity', label: 'Activity', short: 'Activity', icon: 'activity', permission: 'log:read' },
];
