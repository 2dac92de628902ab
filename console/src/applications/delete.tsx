import { Button, Modal, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { announce } from '../frame/announce.ts';
import { Icon } from '../frame/icons.tsx';
import { useNow } from '../frame/load.ts';
import { go } from '../frame/place.ts';
import { Complaint } from '../frame/problem.tsx';
import { useSignedIn } from '../frame/signed-in.ts';
import { ago, exactly } from '../frame/words.ts';

export function Delete({ application, close }: { application: Application; close: () => void }) {
  const { api, roll, own } = useSignedIn();
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
      roll.remove(id);
      announce(`${name} is deleted.`);
      go('applications');
    } catch (failure) {
      setBusy(false);
      setError(failure);
    }
  };
  return (
    <Modal opened onClose={close} title={`Delete ${name}`} closeButtonProps={{ 'aria-label': 'Close' }}>
      <form className="stack" onSubmit={remove}>
        <p className={used ? 'notice notice-bad' : 'notice'}>
          <Icon name={used ? 'warning' : 'check'} />
          <span>
            {used ? (
              <>
                It was last used <strong>{ago(used, now)}</strong> ({exactly(used)}). Whatever used it will be
                refused.
              </>
            ) : (
              'It was never used.'
            )}
          </span>
        </p>
        <p className="quiet">
          Its keys and its Sessions stop working at once. This cannot be undone.
          {own?.id === id && ' You are signed in with its key: this signs you out.'}
        </p>
        <TextInput
          label="Type its name to go on"
          placeholder={name}
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
          autoComplete="off"
          data-autofocus
        />
        <Complaint error={error} />
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
