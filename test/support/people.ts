/** Requests of people who are signed in to the console, as the audit log sees them. */

import type { Person } from '../../src/domain/audit.ts';
import { then } from '../../src/domain/awaitable.ts';
import { keyDigest } from '../../src/domain/key.ts';
import type { Credentials } from '../../src/store/store.ts';
import type { TestServer } from './test-server.ts';

export const ada = { subject: '00u1ada', name: 'Ada Lovelace', email: 'ada@example.com' };
export const bob = { subject: '00u2bob', email: 'bob@example.com' };

/** Requests with the key are those of the person from now on, until the returned function is called. */
export function signInAs({ app }: TestServer, key: string, person: Person): () => void {
  const credentials = app.store.credentials as { -readonly [K in keyof Credentials]: Credentials[K] };
  const { find } = credentials;
  const digest = keyDigest(key);
  credentials.find = (parsed) =>
    then(find(parsed), (principal) =>
      principal?.kind === 'application' && digest.equals(parsed.digest)
        ? { ...principal, person }
        : principal,
    );
  return () => {
    credentials.find = find;
  };
}
