import { Select } from '@mantine/core';
import { useState } from 'react';
import type { Application, ApplicationKey } from '../../../sdk/src/sallyport.ts';
import { ConflictError } from '../../../sdk/src/sallyport.ts';
import { ConfirmDialog } from '../frame/confirm-dialog.tsx';
import { formatDate, plural } from '../frame/format.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { expiryDate, lifetimes } from './draft.ts';
import { keyEndingCache } from './key-endings.ts';

interface Props {
  readonly application: Application;
  readonly keys: readonly ApplicationKey[];
  readonly close: () => void;
  readonly done: (secret: string, note: string) => void;
}

const modes = [
  {
    value: 'add',
    title: 'Keep old keys',
    text: 'Old keys stay valid. Switch your programs to the new key, then revoke the old one.',
  },
  {
    value: 'overlap',
    title: 'Let old keys expire in 24 hours',
    text: 'Old keys stay valid until then. Switch your programs to the new key within a day.',
  },
  {
    value: 'replace',
    title: 'Revoke old keys',
    text: 'All other keys of this application are revoked immediately. Use this if a key has leaked.',
  },
] as const;

type Mode = (typeof modes)[number]['value'];

const notes: Record<Mode, string> = {
  add: 'Old keys stay valid until you revoke them.',
  overlap: 'Old keys expire in 24 hours.',
  replace: 'All old keys are revoked.',
};

const overlap = 86_400_000;

export function RotateDialog({ application, keys, close, done }: Props) {
  const { api } = useSignedIn();
  const [mode, setMode] = useState<Mode>('add');
  const [lifetime, setLifetime] = useState('');
  const rotate = async () => {
    const end = expiryDate({ expiry: lifetime }, Date.now());
    const created =
      mode === 'replace'
        ? await api.applications.regenerate(application.id)
        : await api.applications.createKey(application.id, {
            ...(end && { expires_at: end }),
            ...(mode === 'overlap' && {
              old_keys_expire_at: new Date(Date.now() + overlap).toISOString(),
            }),
          });
    keyEndingCache(api).delete(application.id);
    const ownEnd = 'key_expires_at' in created ? created.key_expires_at : undefined;
    const keyEnd = ownEnd ?? created.expires_at;
    done(created.key, `${notes[mode]}${keyEnd ? ` The new key expires on ${formatDate(keyEnd)}.` : ''}`);
  };
  return (
    <ConfirmDialog
      title={`Rotate key of ${application.name}`}
      close={close}
      action={mode === 'replace' ? 'Replace all keys' : 'Create key'}
      run={rotate}
      dangerous={mode === 'replace'}
      focus="content"
      explain={(error) =>
        error instanceof ConflictError
          ? 'An application can have three keys. Revoke one first, or revoke all old keys with the last choice.'
          : undefined
      }
    >
      <fieldset className="choices">
        <legend className="visually-hidden">Old keys</legend>
        {modes.map(({ value, title, text }) => (
          <label key={value} className="choice">
            <input type="radio" name="mode" checked={mode === value} onChange={() => setMode(value)} />
            <span>
              <strong>{title}</strong>
              <small>{text}</small>
            </span>
          </label>
        ))}
      </fieldset>
      {mode !== 'replace' && (
        <Select
          label="New key expires"
          data={[
            { label: 'With the application', value: '' },
            ...lifetimes.map(([label, value]) => ({ label: `In ${label}`, value })),
          ]}
          value={lifetime}
          allowDeselect={false}
          onChange={(value) => setLifetime(value ?? '')}
        />
      )}
      {mode === 'replace' && keys.length > 0 && (
        <p className="fine">
          {plural(keys.length, 'key')} will be revoked: {keys.map(({ ending }) => `…${ending}`).join(', ')}
        </p>
      )}
    </ConfirmDialog>
  );
}
