/** Begins the line that `test/support/preload.ts` prints after the last test of a file. The path follows. */
export const done = '(done) ';
