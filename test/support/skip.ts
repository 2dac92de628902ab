/** Tests that need what not every machine has. The summary of the run says why they were skipped. */

const prefix = 'skipped because: ';

/** A condition for `skipIf`: true if it is not there. `reason` names the tests and what they lack. */
export function isMissing(there: boolean, reason: string): boolean {
  if (!there) console.log(prefix + reason);
  return !there;
}

/** The reason on a line of output, if it has one. */
export function skipReason(line: string): string | undefined {
  return line.startsWith(prefix) ? line.slice(prefix.length) : undefined;
}

export const noCurl = isMissing(
  Bun.which('curl') !== null,
  'examples of the README and the guides: no curl found',
);
