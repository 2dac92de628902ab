/** For what must be done past the service while the machine is busy with tearing at it. */
import { DbUnavailable } from '../src/store/engine/db.ts';
import { generousTimeout } from '../test/support/test-server.ts';
import type { Context } from './row.ts';

/** Does it again as long as the database does not answer in time; it must do no harm to do it twice. */
export async function patiently<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 0; tries < 20; tries++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DbUnavailable)) throw error;
      await Bun.sleep(100);
    }
  }
  return work();
}

/** A setting for nodes. The full run keeps the default. The short form runs beside other tests, which take the processor from it. */
export function databaseTimeout(context: Context): Record<string, string> {
  return { SALLYPORT_DATABASE_TIMEOUT: context.sized('', String(generousTimeout)) };
}
