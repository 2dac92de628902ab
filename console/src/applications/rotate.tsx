import { Button, Modal } from '@mantine/core';
import { useState } from 'react';
import type { Application, ApplicationKey } from '../../../sdk/src/sallyport.ts';
import { ConflictError } from '../../../sdk/src/sallyport.ts';
import { Complaint } from '../frame/problem.tsx';
import { useSignedIn } from '../frame/signed-in.ts';
import { plural } from '../frame/words.ts';
import { knownEndings } from './endings.ts';

interface Props {
  readonly application: Application;
  readonly keys: readonly ApplicationKey[];
  readonly close: () => void;
  readonly done: (secret: string, note: string) => void;
}

const ways = [
  {
    value: 'overlap',
    title: 'With overlap',
    text: 'The new key works beside those that are there. Move your programs over, then delete the old one here.',
  },
  {
    value: 'once',
    title: 'At once',
    text: 'Every other key of this Application stops working now. Take this if one has leaked.',
  },
] as const;

export function Rotate({ application, keys, close, done }: Props) {
  const { api } = useSignedIn();
  const [way, setWay] = useState<'overlap' | 'once'>('overlap');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const rotate = async () => {
    setBusy(true);
    try {
      const { key } =
        way === 'overlap'
          ? await api.applications.createKey(application.id)
          : await api.applications.regenerate(application.id);
      knownEndings(api).delete(application.id);
      done(
        key,
        way === 'overlap'
          ? 'It works beside the older ones until you delete them.'
          : 'Every older key has stopped working.',
      );
    } catch (failure) {
      setBusy(false);
      setError(failure);
    }
  };
  return (
    <Modal
      opened
      onClose={close}
      title={`Rotate the key of ${application.name}`}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <div className="stack">
        <fieldset className="choices">
          <legend className="unseen">How</legend>
          {ways.map(({ value, title, text }) => (
            <label key={value} className="choice">
              <input type="radio" name="way" checked={way === value} onChange={() => setWay(value)} />
              <span>
                <strong>{title}</strong>
                <small>{text}</small>
              </span>
            </label>
          ))}
        </fieldset>
        {way === 'once' && keys.length > 0 && (
          <p className="fine">
            {plural(keys.length, 'key')} will stop: {keys.map(({ ending }) => `…${ending}`).join(', ')}
          </p>
        )}
        {error instanceof ConflictError ? (
          <p className="complaint" role="alert">
            An Application has at most three keys: delete one first.
          </p>
        ) : (
          <Complaint error={error} />
        )}
        <div className="foot">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button onClick={rotate} loading={busy} color={way === 'once' ? 'red' : 'teal'}>
            {way === 'once' ? 'Replace every key' : 'Make a new key'}
          </Button>
        </div>
      </div>
    </Modal>
  );
}
