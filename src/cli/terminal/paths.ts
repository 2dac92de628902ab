/** Paths and database addresses, as shown to operators. */
import { relative } from 'node:path';

/** Relative to the current folder if the path is below it, otherwise unchanged. */
export function shortPath(path: string): string {
  const fromHere = relative(process.cwd(), path);
  return fromHere.startsWith('..') ? path : fromHere;
}

/**
 * A database address without its credentials. A password may contain any character unescaped, so everything up to the
 * last @ is removed, and so is the query. If an @ follows the query, the whole address is hidden.
 */
export function databaseLabel(databaseUrl: string): string {
  if (databaseUrl.startsWith('sqlite:')) return shortPath(databaseUrl.slice('sqlite:'.length));
  const address = databaseUrl.replace(/^\w+:\/\//, '');
  const query = address.search(/[?#]/);
  if (query >= 0 && address.lastIndexOf('@') > query) return 'postgres://…';
  const label = address.slice(address.lastIndexOf('@') + 1, query < 0 ? undefined : query);
  return `postgres://${label}`;
}

/** Returns undefined for PostgreSQL. */
export function sqlitePath(databaseUrl: string): string | undefined {
  return databaseUrl.startsWith('sqlite:') ? databaseUrl.slice('sqlite:'.length) : undefined;
}
