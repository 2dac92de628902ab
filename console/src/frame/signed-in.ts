/** The signed-in key. It is only in the page's memory, unless the user chose to stay signed in (see kept-key.ts). */
import { createContext, useContext } from 'react';
import type { Application, Permission } from '../../../sdk/src/sallyport.ts';
import { AuthenticationError, PermissionError, Sallyport } from '../../../sdk/src/sallyport.ts';
import { ApplicationNames } from '../applications/application-names.ts';
import { ApplicationStore } from '../applications/application-store.ts';
import { type FoundKey, keepKeyForReload } from './kept-key.ts';

export interface SignedIn {
  readonly api: Sallyport;
  /** The key's last four characters. */
  readonly keyEnding: string;
  /** Undefined if the key lacks `application:read`. */
  readonly ownApplication: Application | undefined;
  readonly permissions: readonly Permission[];
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
export async function signIn({ key, keep }: FoundKey, lost: () => void): Promise<SignedIn> {
  let signedIn = false;
  const watched = async (...[input, init]: Parameters<typeof fetch>) => {
    const response = await fetch(input, init);
    if (response.status === 401 && signedIn) lost();
    return response;
  };
  const api = new Sallyport({ url: location.origin, key, fetch: watched as typeof fetch });
  const names = new ApplicationNames(api);
  const [ownApplication, permissions] = await Promise.all([fetchOwnApplication(api), api.permissions()]);
  signedIn = true;
  const decideForOwnKey = (permission: string, resource: Resource) =>
    api.decide({ credential: key, permission, resource, explain: true });
  return {
    api,
    keyEnding: key.slice(-4),
    ownApplication,
    permissions,
    applications: new ApplicationStore(api, names),
    names,
    reload: () => {
      keepKeyForReload(key, keep);
      location.reload();
    },
    decideForOwnKey,
  };
}

/** Returns undefined if the key is valid but lacks `application:read`. */
async function fetchOwnApplication(api: Sallyport): Promise<Application | undefined> {
  try {
    return await api.applications.current();
  } catch (error) {
    if (error instanceof PermissionError && !(error instanceof AuthenticationError)) return undefined;
    throw error;
  }
}

/** Whether the key holds the permission on any container. Undefined if it cannot read its own application. */
export function holds(
  { ownApplication }: Pick<SignedIn, 'ownApplication'>,
  permission: string,
): boolean | undefined {
  return (
    ownApplication &&
    (ownApplication.permissions.includes(permission) ||
      ownApplication.rules.some((rule) => rule.permissions.includes(permission)))
  );
}
