/** Puts an application or a session into quarantine and releases it. */
import { Button } from '@mantine/core';
import { useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { announce } from '../frame/announce.ts';
import { ConfirmDialog } from '../frame/confirm-dialog.tsx';
import { formatDate } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { holds, useSignedIn } from '../frame/signed-in.ts';

/** Shown wherever the application appears. */
export function QuarantineTag({ since }: { since: string | undefined }) {
  if (since === undefined) return null;
  return (
    <span className="tag tag-quarantine" title={`In quarantine since ${formatDate(since)}`}>
      in quarantine
    </span>
  );
}

/** An application, or a session or delegation with the name of its application. */
export interface Suspect {
  readonly type: 'application' | 'session' | 'delegation';
  readonly id: string;
  readonly name: string;
  readonly isQuarantined: boolean;
}

export function suspectOf({ id, name, quarantined_at }: Application): Suspect {
  return { type: 'application', id, name, isQuarantined: quarantined_at !== undefined };
}

const permissions = {
  application: 'application:update',
  session: 'session:delete',
  delegation: 'session:delete',
} as const;

interface Props {
  readonly suspect: Suspect;
  readonly compact?: boolean;
  /** Called after the change. */
  readonly done?: (() => void) | undefined;
  /** Whether the dialog is open at first. */
  readonly isOpen?: boolean;
}

/** A button with confirmation. Renders nothing if the key may not use it. */
export function QuarantineButton({ suspect, compact = false, done, isOpen = false }: Props) {
  const signedIn = useSignedIn();
  const [open, setOpen] = useState(isOpen);
  if (!holds(signedIn, permissions[suspect.type])) return null;
  const label = suspect.isQuarantined ? 'Release' : 'Quarantine';
  return (
    <>
      <Button
        {...(compact
          ? { variant: 'subtle', color: 'gray', size: 'compact-xs' }
          : { variant: 'default', leftSection: <Icon name="shield" size={14} /> })}
        aria-label={compact ? `${label} ${titleOf(suspect)}` : undefined}
        onClick={() => setOpen(true)}
      >
        {label}
      </Button>
      {open && <QuarantineDialog suspect={suspect} close={() => setOpen(false)} done={done} />}
    </>
  );
}

const consequences = {
  application:
    'The application and the sessions and delegations that it created or authorized can change nothing, and they read tokens without their data. Keys stay valid, and the audit log records what they try. You can release it at any time.',
  session:
    'The session can change nothing, and it reads tokens without their data. Its key stays valid, and the audit log records what it tries. You can release it at any time.',
  delegation:
    'The delegation can change nothing, and it reads tokens without their data. Its key stays valid, and the audit log records what it tries. You can release it at any time.',
  release: 'Its access rules apply again immediately.',
};

function titleOf({ type, name }: Suspect): string {
  return type === 'application' ? name : `${type} of ${name}`;
}

interface DialogProps extends Pick<Props, 'suspect' | 'done'> {
  readonly close: () => void;
}

function QuarantineDialog({ suspect, close, done }: DialogProps) {
  const { api, applications } = useSignedIn();
  const { type, id, isQuarantined } = suspect;
  const title = titleOf(suspect);
  const change = async () => {
    const resource = type === 'application' ? api.applications : api.sessions;
    if (isQuarantined) await resource.release(id);
    else await resource.quarantine(id);
    if (type === 'application') applications.put(await api.applications.get(id));
    announce(isQuarantined ? `Released ${title}.` : `Put ${title} into quarantine.`);
    close();
    done?.();
  };
  return (
    <ConfirmDialog
      title={isQuarantined ? `Release ${title}?` : `Quarantine ${title}?`}
      close={close}
      action={isQuarantined ? 'Release' : 'Quarantine'}
      run={change}
      dangerous={!isQuarantined}
    >
      <p className="quiet">{isQuarantined ? consequences.release : consequences[type]}</p>
    </ConfirmDialog>
  );
}

/** A notice on the page of the application. */
export function QuarantineNotice({ since }: { since: string | undefined }) {
  if (since === undefined) return null;
  return (
    <div className="notice notice-quarantine" role="status">
      <Icon name="shield" />
      <p>
        <strong>In quarantine since {formatDate(since)}.</strong> The application and the sessions that it
        created or authorized can change nothing, and they read tokens without their data. The access below
        applies again after its release.
      </p>
    </div>
  );
}
