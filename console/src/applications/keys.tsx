import { Button } from '@mantine/core';
import { useState } from 'react';
import type { Application, ApplicationKey } from '../../../sdk/src/sallyport.ts';
import { announce } from '../frame/announce.ts';
import { ErrorNotice, InlineError } from '../frame/error-notice.tsx';
import { formatDate, timeAgo } from '../frame/format.ts';
import { type Loaded, useNow } from '../frame/load.ts';
import { useRouteQuery } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { keyEndingCache } from './key-endings.ts';
import { Expires, LastUsed } from './table.tsx';

interface Props {
  readonly application: Application;
  readonly keys: Loaded<ApplicationKey[]>;
  readonly mayChange: boolean;
}

export function Keys({ application, keys, mayChange }: Props) {
  const { api, keyEnding: mine, ownApplication } = useSignedIn();
  const now = useNow(10_000);
  const [{ key: searched }] = useRouteQuery({ key: '' });
  const [confirming, setConfirming] = useState<string>();
  const [error, setError] = useState<unknown>();
  if (keys.error !== undefined) return <ErrorNotice error={keys.error} retry={keys.reload} />;
  const remove = async (key: ApplicationKey) => {
    if (confirming !== key.id) return setConfirming(key.id);
    try {
      await api.applications.deleteKey(application.id, key.id);
      keyEndingCache(api).delete(application.id);
      announce(`Key …${key.ending} revoked.`);
      keys.reload();
    } catch (failure) {
      setError(failure);
    }
    setConfirming(undefined);
  };
  return (
    <>
      <ul className="key-list">
        {(keys.data ?? []).map((key) => (
          <li key={key.id} className={key.ending === searched ? 'key-found' : undefined}>
            <code>…{key.ending}</code>
            <span className="fine">
              created <span title={formatDate(key.created_at)}>{timeAgo(key.created_at, now)}</span>
            </span>
            <span className="fine">
              {key.last_used_at !== undefined && 'used '}
              <LastUsed at={key.last_used_at} now={now} />
            </span>
            {key.expires_at !== undefined && (
              <span className="fine">
                expires <Expires at={key.expires_at} now={now} />
              </span>
            )}
            {ownApplication?.id === application.id && key.ending === mine && (
              <span className="tag">signed in</span>
            )}
            {mayChange && (
              <Button
                variant={confirming === key.id ? 'filled' : 'subtle'}
                color="red"
                size="compact-xs"
                onClick={() => void remove(key)}
                onBlur={() => setConfirming(undefined)}
              >
                {confirming === key.id ? 'Revoke this key now?' : 'Revoke'}
              </Button>
            )}
          </li>
        ))}
      </ul>
      <InlineError error={error} />
    </>
  );
}
