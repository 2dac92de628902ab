import type { IconName } from './icons.tsx';

export interface Section {
  readonly at: string;
  readonly label: string;
  readonly icon: IconName;
  /** What a key needs to see anything there. */
  readonly permission: string | undefined;
}

export const sections: readonly Section[] = [
  { at: 'applications', label: 'Applications', icon: 'applications', permission: 'application:read' },
  { at: 'preview', label: 'What would it see?', icon: 'preview', permission: undefined },
  { at: 'sessions', label: 'Sessions', icon: 'sessions', permission: 'session:read' },
  { at: 'tokens', label: 'Tokens', icon: 'tokens', permission: 'token:read' },
  { at: 'activity', label: 'Activity', icon: 'activity', permission: 'log:read' },
];
