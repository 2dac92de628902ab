import { Button } from '@mantine/core';
import { useState } from 'react';
import type { Application, ApplicationKey } from '../../../sdk/src/sallyport.ts';
import { announce } from '../frame/announce.ts';
import { type Loaded, useNow } from '../frame/load.ts';
import { Complaint, Problem } from '../frame/problem.tsx';
import { useSignedIn } from '../frame/signed-in.ts';
import { ago, exactly } from '../frame/words.ts';
import { knownEndings } from './endings.ts';
import { LastUsed } from './table.tsx';

interface Props {
  readonly application: Application;
  readonly keys: Loaded<ApplicationKey[]>;
  readonly mayChange: boolean;
}

export function Keys({ application, keys, mayChange }: Props) {
  const { api, ending: mine, own } = useSignedIn();
  const now = useNow(10_000);
  const [sure, setSure] = useState<string>();
  const [error, setError] = useState<unknown>();
  if (keys.error !== undefined) return <Problem error={keys.error} retry={keys.reload} />;
  const remove = async (key: ApplicationKey) => {
    if (sure !== key.id) return setSure(key.id);
    try {
      await api.applications.deleteKey(application.id, key.id);
      knownEndings(api).delete(application.id);
      announce(`The key ending in ${key.ending} has stopped working.`);
      keys.reload();
    } catch (failure) {
      setError(failure);
    }
    setSure(undefined);
  };
  return (
    <>
      <ul className="key-list">
        {(keys.data ?? []).map((key) => (
          <li key={key.id}>
            <code>…{key.ending}</code>
            <span className="fine">
              made <span title={exactly(key.created_at)}>{ago(key.created_at, now)}</span>
            </span>
            <span className="fine">
              {key.last_used_at !== undefined && 'used '}
              <LastUsed at={key.last_used_at} now={now} />
            </span>
            {own?.id === application.id && key.ending === mine && (
              <span className="tag">signed in with it</span>
            )}
            {mayChange && (
              <Button
                variant={sure === key.id ? 'filled' : 'subtle'}
                color="red"
                size="compact-xs"
                onClick={() => void remove(key)}
                onBlur={() => setSure(undefined)}
              >
                {sure === key.id ? 'It stops working at once: delete' : 'Delete'}
              </Button>
            )}
          </li>
        ))}
      </ul>
      <Complaint error={error} />
    </>
  );
}
