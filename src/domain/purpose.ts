/** Purposes: why a request is made. A tenant can list those that it accepts. */
import { z } from 'zod';
import { line } from './common-fields.ts';

export const Purpose = line(1, 200).refine((value) => /\S/u.test(value), 'must not be only white space');

export const maxPurposes = 50;
/** A purpose of the list of a tenant. A stated purpose may add a reference, after a space or a colon. */
export const ListedPurpose = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,49}$/, 'must have 1 to 50 lower-case letters, digits, - and _');

/** Returns undefined if the purpose is accepted. `listed` is undefined if the tenant accepts every purpose. */
export function purposeError(purpose: string, listed: readonly string[] | undefined): string | undefined {
  const [name = ''] = purpose.split(/[ :]/, 1);
  if (!listed || listed.includes(name)) return undefined;
  return `must be one of ${listed.join(', ')}, which may be followed by a space and a reference`;
}
