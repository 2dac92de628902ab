import type { IconName } from './icons.tsx';

export interface Section {
  readonly at: string;
  readonly label: string;
  /** Where there is little room. */
  readonly short: string;
  readonly icon: IconName;
  /** What a key needs to see anything there. */
  readonly permission: string | undefined;
}

export const sections: readonly Section[] = [
  {
    at: 'applications',
    label: 'Applications',
    short: 'Apps',
    icon: 'applications',
    permission: 'application:read',
  },
  { at: 'preview', label: 'What would it see?', short: 'Preview', icon: 'preview', permission: undefined },
  { at: 'sessions', label: 'Sessions', short: 'Sessions', icon: 'sessions', permission: 'session:read' },
  { at: 'tokens', label: 'Tokens', short: 'Tokens', icon: 'tokens', permission: 'token:read' },
  { at: 'activity', label: 'Activity', short: 'Activity', icon: 'activity', permission: 'log:read' },
];
