/** Begins the line that `test/support/preload.ts` prints after the last test of a file. The path follows. */
export const done = '(done) ';

/** Work to do after the last test of a file. `afterAll` cannot be called within tests. */
const pending: (() => Promise<void>)[] = [];

export function afterFile(work: () => Promise<void>): void {
  pending.push(work);
}

/** For `test/support/preload.ts`. The last one added runs first. */
export async function runAfterFile(): Promise<void> {
  for (const work of pending.splice(0).reverse()) await work();
}
