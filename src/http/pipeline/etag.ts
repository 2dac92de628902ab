/** `ETag` and `If-Match`. A version comes from `src/domain/row-version.ts`. */
import { type Failure, fail } from '../../domain/error.ts';

/** The header of a reply that shows this version of a row. */
export function etag(version: string): { ETag: string } {
  return { ETag: `"${version}"` };
}

/** Throws `changed_meanwhile` if the request has an `If-Match` that does not contain the current version of the row. */
export type RequireMatch = (version: string) => void;

export const matchAny: RequireMatch = () => {};

const header = 'if-match';
/** One entity tag (RFC 9110, section 8.8.3) with the comma after it, or an empty element of the list. */
const element = /[ \t]*(?:(W\/)?"([!\x23-\x7e\x80-\xff]*)"[ \t]*)?(?:,|$)/y;

/** Throws `validation_failed` if the header is malformed. A weak tag never matches. */
export function readIfMatch(headers: Headers): RequireMatch {
  const value = headers.get(header);
  if (value === null || value.trim() === '*') return matchAny;
  const versions = new Set<string>();
  let tags = 0;
  element.lastIndex = 0;
  while (element.lastIndex < value.length) {
    const match = element.exec(value);
    if (!match) throw malformed();
    const [, weak, version] = match;
    if (version !== undefined) tags++;
    if (version !== undefined && weak === undefined) versions.add(version);
  }
  if (tags === 0) throw malformed();
  return (version) => {
    if (!versions.has(version)) throw fail('changed_meanwhile');
  };
}

function malformed(): Failure {
  return fail('validation_failed', {
    errors: { [header]: ['must be * or a list of entity tags, such as "a1b2c3"'] },
  });
}
