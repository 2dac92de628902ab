/** Where things are, as an operator reads it. */
import { relative } from 'node:path';

/** From here if that is below, else in full. */
export function shortPath(path: string): string {
  const near = relative(process.cwd(), path);
  return near.startsWith('..') ? path : near;
}

/**
 * Without anything that may be of a password, which may hold any sign and may not be escaped: what is behind the
 * last @ and before a query. Where either might be within the other, nothing is shown.
 */
export function databasePlace(databaseUrl: string): string {
  if (databaseUrl.startsWith('sqlite:')) return shortPath(databaseUrl.slice('sqlite:'.length));
  const address = databaseUrl.replace(/^\w+:\/\//, '');
  const query = address.search(/[?#]/);
  if (query >= 0 && address.lastIndexOf('@') > query) return 'postgres://…';
  const shown = address.slice(address.lastIndexOf('@') + 1, query < 0 ? undefined : query);
  return `postgres://${shown}`;
}

/** Of the file; undefined for PostgreSQL. */
export function sqlitePath(databaseUrl: string): string | undefined {
  return databaseUrl.startsWith('sqlite:') ? databaseUrl.slice('sqlite:'.length) : undefined;
}
