/**
 * The signed-in key or person. A key is only in the page's memory, unless the user chose to stay signed in (see
 * kept-key.ts). A person has a session in a cookie, which no script can read.
 */
import { createContext, useContext } from 'react';
import type { Application, Permission } from '../../../sdk/src/sallyport.ts';
import { Sallyport } from '../../../sdk/src/sallyport.ts';
import { ApplicationNames } from '../applications/application-names.ts';
import { ApplicationStore } from '../applications/application-store.ts';
import { Connection } from './connection.ts';
import { type FoundKey, keepKeyForReload } from './kept-key.ts';
import type { Person } from './sign-in-link.ts';

export interface SignedIn {
  readonly api: Sallyport;
  /** The key's last four characters. Undefined if a person signed in by name. */
  readonly keyEnding: string | undefined;
  readonly person: Person | undefined;
  /** Undefined if the key lacks `application:read`. */
  readonly ownApplication: Application | undefined;
  readonly permissions: readonly Permission[];
  /** The permissions of the key, each at least in one container. */
  readonly held: ReadonlySet<string>;
  readonly connection: Connection;
  readonly applications: ApplicationStore;
  readonly names: ApplicationNames;
  /** Reloads the console and stays signed in. */
  readonly reload: () => void;
  /** Requests a decision about the signed-in key. */
  readonly decideForOwnKey: (permission: string, resource: Resource) => ReturnType<Sallyport['decide']>;
}

type Resource = { id?: string; container?: string };

const Context = createContext<SignedIn | undefined>(undefined);
export const SignedInProvider = Context.Provider;

export function useSignedIn(): SignedIn {
  const value = useContext(Context);
  if (!value) throw new Error('not signed in');
  return value;
}

/** Throws the service's error if the key is invalid. Calls `lost` if a later request gets 401. */
export async function signIn(found: FoundKey | { person: Person }, lost: () => void): Promise<SignedIn> {
  const { key, keep, person } = { key: undefined, keep: false, person: undefined, ...found };
  const connection = new Connection(lost);
  const url = person ? `${location.origin}/console/api` : location.origin;
  const api = new Sallyport({
    url,
    ...(key !== undefined && { key }),
    fetch: connection.fetch as typeof fetch,
  });
  const [own, permissions] = await Promise.all([api.ownPermissions(), api.permissions()]);
  connection.limitTo(own);
  const held = new Set(own);
  const ownApplication = held.has('application:read') ? await api.applications.current() : undefined;
  const names = new ApplicationNames(api);
  const decideForOwnKey = (permission: string, resource: Resource) =>
    api.decide({ credential: key ?? '', permission, resource, explain: true });
  return {
    api,
    keyEnding: key?.slice(-4),
    person,
    ownApplication,
    permissions,
    held,
    connection,
    applications: new ApplicationStore(api, names),
    names,
    reload: () => {
      if (key !== undefined) keepKeyForReload(key, keep);
      location.reload();
    },
    decideForOwnKey,
  };
}

/** Whether the key holds the permission on any container. */
export function holds({ held }: Pick<SignedIn, 'held'>, permission: string): boolean {
  return held.has(permission);
}
