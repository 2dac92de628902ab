import { Button, Modal, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { announce } from '../frame/announce.ts';
import { InlineError } from '../frame/error-notice.tsx';
import { formatDate, timeAgo } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useNow } from '../frame/load.ts';
import { navigate } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';

export function DeleteDialog({ application, close }: { application: Application; close: () => void }) {
  const { api, applications, ownApplication } = useSignedIn();
  const now = useNow(60_000);
  const [typed, setTyped] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const { id, name, last_used_at: used } = application;
  const remove = async (event: FormEvent) => {
    event.preventDefault();
    if (typed !== name) return;
    setBusy(true);
    try {
      await api.applications.delete(id);
      applications.remove(id);
      announce(`${name} deleted.`);
      navigate('applications');
    } catch (failure) {
      setBusy(false);
      setError(failure);
    }
  };
  return (
    <Modal opened onClose={close} title={`Delete ${name}`} closeButtonProps={{ 'aria-label': 'Close' }}>
      <form className="stack" onSubmit={remove}>
        <p className={used ? 'notice notice-bad' : 'notice'}>
          <Icon name={used ? 'warning' : 'sessions'} />
          <span>
            {used ? (
              <>
                Last used <strong>{timeAgo(used, now)}</strong> ({formatDate(used)}). Programs that use it
                will be denied access.
              </>
            ) : (
              'No recorded use. Use in the last minute may not be recorded yet.'
            )}
          </span>
        </p>
        <p className="quiet">
          Its keys and sessions are revoked immediately. This cannot be undone.
          {ownApplication?.id === id && ' You are signed in with its key and will be signed out.'}
        </p>
        <TextInput
          label="Type the name to confirm"
          placeholder={name}
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
          autoComplete="off"
          data-autofocus
        />
        <InlineError error={error} />
        <div className="foot">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" color="red" disabled={typed !== name} loading={busy}>
            Delete
          </Button>
        </div>
      </form>
    </Modal>
  );
}
