/** Puts an application into quarantine and releases it. */
import { Button, Modal } from '@mantine/core';
import { useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { announce } from '../frame/announce.ts';
import { InlineError } from '../frame/error-notice.tsx';
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

interface Props {
  readonly application: Pick<Application, 'id' | 'name' | 'quarantined_at'>;
  readonly compact?: boolean;
  /** Called after the change. */
  readonly done?: (() => void) | undefined;
}

/** A button with confirmation. Renders nothing if the key may not change applications. */
export function QuarantineButton({ application, compact = false, done }: Props) {
  const signedIn = useSignedIn();
  const [open, setOpen] = useState(false);
  if (holds(signedIn, 'application:update') === false) return null;
  const label = application.quarantined_at === undefined ? 'Quarantine' : 'Release';
  return (
    <>
      <Button
        {...(compact
          ? { variant: 'subtle', color: 'gray', size: 'compact-xs' }
          : { variant: 'default', leftSection: <Icon name="shield" size={14} /> })}
        aria-label={compact ? `${label} ${application.name}` : undefined}
        onClick={() => setOpen(true)}
      >
        {label}
      </Button>
      {open && <QuarantineDialog application={application} close={() => setOpen(false)} done={done} />}
    </>
  );
}

interface DialogProps extends Pick<Props, 'application' | 'done'> {
  readonly close: () => void;
}

function QuarantineDialog({ application: { id, name, quarantined_at }, close, done }: DialogProps) {
  const { api, applications } = useSignedIn();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const isQuarantined = quarantined_at !== undefined;
  const change = async () => {
    setBusy(true);
    try {
      if (isQuarantined) await api.applications.release(id);
      else await api.applications.quarantine(id);
      applications.put(await api.applications.get(id));
      announce(isQuarantined ? `${name} was released.` : `${name} is in quarantine.`);
      close();
      done?.();
    } catch (failure) {
      setBusy(false);
      setError(failure);
    }
  };
  return (
    <Modal
      opened
      onClose={close}
      title={isQuarantined ? `Release ${name}?` : `Quarantine ${name}?`}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <div className="stack">
        <p className="quiet">
          {isQuarantined
            ? 'Its access rules apply again immediately, also to its sessions.'
            : 'The application and its sessions can change nothing, and they read tokens without their data. Keys stay valid, and the audit log records what they try. You can release it at any time.'}
        </p>
        <InlineError error={error} />
        <div className="foot">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button color={isQuarantined ? 'teal' : 'red'} onClick={change} loading={busy} data-autofocus>
            {isQuarantined ? 'Release' : 'Quarantine'}
          </Button>
        </div>
      </div>
    </Modal>
  );
}

/** A notice on the page of the application. */
export function QuarantineNotice({ since }: { since: string | undefined }) {
  if (since === undefined) return null;
  return (
    <div className="notice notice-quarantine" role="status">
      <Icon name="shield" />
      <p>
        <strong>In quarantine since {formatDate(since)}.</strong> The application and its sessions can change
        nothing, and they read tokens without their data. The access below applies again after its release.
      </p>
    </div>
  );
}
