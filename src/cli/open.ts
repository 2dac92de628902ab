import { openDatabase } from '../app.ts';
import { masterKeys } from '../master-key.ts';
import type { Store } from '../store/store.ts';
import type { Invocation } from './command.ts';

/** Opens the database that the service uses, with its master key: every change leaves an audit entry. */
export async function withStore(
  { config }: Pick<Invocation, 'config'>,
  work: (store: Store) => Promise<void>,
): Promise<number> {
  const { store } = await openDatabase(config, { masters: masterKeys(config) });
  try {
    await work(store);
    return 0;
  } finally {
    await store.close();
  }
}
