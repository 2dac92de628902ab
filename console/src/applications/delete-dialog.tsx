import { TextInput } from '@mantine/core';
import { useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { announce } from '../frame/announce.ts';
import { ConfirmDialog } from '../frame/confirm-dialog.tsx';
import { formatDate, timeAgo } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useNow } from '../frame/load.ts';
import { navigate } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';

export function DeleteDialog({ application, close }: { application: Application; close: () => void }) {
  const { api, applications, ownApplication } = useSignedIn();
  const now = useNow(60_000);
  const [typed, setTyped] = useState('');
  const { id, name, last_used_at: used } = application;
  const remove = async () => {
    await api.applications.delete(id);
    applications.remove(id);
    announce(`${name} deleted.`);
    close();
    navigate('applications');
  };
  return (
    <ConfirmDialog
      title={`Delete ${name}`}
      close={close}
      action="Delete"
      run={remove}
      dangerous
      disabled={typed !== name}
      focus="content"
    >
      <p className={used ? 'notice notice-bad' : 'notice'}>
        <Icon name={used ? 'warning' : 'sessions'} />
        <span>
          {used ? (
            <>
              Last used <strong>{timeAgo(used, now)}</strong> ({formatDate(used)}). Programs that use it will
              be denied access.
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
    </ConfirmDialog>
  );
}
