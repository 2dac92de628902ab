/** Who is signed in. The key is in this page's memory and nowhere else: a reload forgets it. */
import { createContext, useContext } from 'react';
import type { Application, Permission } from '../../../sdk/src/sallyport.ts';
import { AuthenticationError, PermissionError, Sallyport } from '../../../sdk/src/sallyport.ts';
import { Roll } from '../applications/roll.ts';

export interface SignedIn {
  readonly api: Sallyport;
  /** Its last four characters. */
  readonly ending: string;
  /** Absent if the key may not even read about its own Application. */
  readonly own: Application | undefined;
  readonly permissions: readonly Permission[];
  readonly roll: Roll;
  /** Asks the service about the very key that is signed in. */
  readonly decideForOwnKey: (permission: string, resource: Resource) => ReturnType<Sallyport['decide']>;
}

type Resource = { id?: string; container?: string };

const Context = createContext<SignedIn | undefined>(undefined);
export const SignedInProvider = Context.Provider;

export function useSignedIn(): SignedIn {
  const value = useContext(Context);
  if (!value) throw new Error('nobody is signed in');
  return value;
}

/** Throws what the service says if the key is not good. `lost` is called once it no longer is. */
export async function signIn(key: string, lost: () => void): Promise<SignedIn> {
  let inside = false;
  const watched = async (...[input, init]: Parameters<typeof fetch>) => {
    const response = await fetch(input, init);
    if (response.status === 401 && inside) lost();
    return response;
  };
  const api = new Sallyport({ url: location.origin, key, fetch: watched as typeof fetch });
  const [own, permissions] = await Promise.all([ownApplication(api), api.permissions()]);
  inside = true;
  const decideForOwnKey = (permission: string, resource: Resource) =>
    api.decide({ credential: key, permission, resource, explain: true });
  return { api, ending: key.slice(-4), own, permissions, roll: new Roll(api), decideForOwnKey };
}

/** A good key that may not read Applications is refused, but with another error than a bad one. */
async function ownApplication(api: Sallyport): Promise<Application | undefined> {
  try {
    return await api.applications.current();
  } catch (error) {
    if (error instanceof PermissionError && !(error instanceof AuthenticationError)) return undefined;
    throw error;
  }
}

/** Whether the key holds it, on whatever; unknown if it may not read about itself. */
export function holds({ own }: Pick<SignedIn, 'own'>, permission: string): boolean | undefined {
  return (
    own &&
    (own.permissions.includes(permission) || own.rules.some((rule) => rule.permissions.includes(permission)))
  );
}
