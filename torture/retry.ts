/** Helpers for direct database access while the machine is under load. */
import { DbUnavailable } from '../src/db/db.ts';
import { generousTimeout } from '../test/support/test-server.ts';
import { NotFinished } from './not-finished.ts';

/** Attempts, with pauses of 100 ms, after which a row does not finish. */
export const maxAttempts = 300;

/** Retries while the database times out. The work must be idempotent. */
export async function retryUnavailable<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DbUnavailable)) throw error;
      await Bun.sleep(100);
    }
  }
  throw new NotFinished(`the database timed out ${maxAttempts} times`);
}

/** The database timeout of nodes. It is longer in the short run, which shares the CPU with other tests. */
export function databaseTimeout(context: {
  sized(full: string, short: string): string;
}): Record<string, string> {
  return { SALLYPORT_DATABASE_TIMEOUT: context.sized('', String(generousTimeout)) };
}
