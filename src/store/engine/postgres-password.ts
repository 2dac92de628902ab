/** Finds a password in a password file of libpq. */
import { readFileSync, statSync } from 'node:fs';
import { DbUnavailable } from './db.ts';
import type { PostgresHost, PostgresTarget } from './postgres-url.ts';

/**
 * Returns undefined if the file does not exist or has no matching line. Throws if other users can read the file; libpq
 * ignores such a file. Secrets that Kubernetes or systemd mounts are accepted: they belong to root, and a group may
 * read them.
 */
export function passwordFromFile(
  { host, port }: PostgresHost,
  { database, user, passfile: path }: PostgresTarget,
): string | undefined {
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file?.isFile()) return undefined;
  const isMounted = file.uid === 0 && (file.mode & 0o777) === 0o440;
  if (file.mode & 0o077 && !isMounted)
    throw new DbUnavailable(`the password file ${path} is readable by other users: run chmod 600 ${path}`);
  const wanted = [host.startsWith('/') ? 'localhost' : host, String(port), database, user];
  for (const line of readFileSync(path, 'utf8').split(/\r?\n/)) {
    const fields = line.startsWith('#') ? [] : fieldsOf(line);
    const password = fields[wanted.length];
    if (password && wanted.every((value, at) => fields[at] === '*' || fields[at] === value)) return password;
  }
  return undefined;
}

/** Splits at colons; `\:` and `\\` stand for the character itself. */
function fieldsOf(line: string): string[] {
  const fields = line.matchAll(/((?:\\.|[^:\\])*)(?::|$)/g);
  return [...fields].map(([, field = '']) => field.replace(/\\(.)/g, '$1'));
}
