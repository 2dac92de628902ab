/** Where things are, as an operator reads it. */
import { relative } from 'node:path';

/** From here if that is below, else in full. */
export function shortPath(path: string): string {
  const near = relative(process.cwd(), path);
  return near.startsWith('..') ? path : near;
}

/** Without the password that the address may hold. */
export function databasePlace(databaseUrl: string): string {
  if (databaseUrl.startsWith('sqlite:')) return shortPath(databaseUrl.slice('sqlite:'.length));
  const url = new URL(databaseUrl);
  return `postgres://${url.host}${url.pathname}`;
}

/** Of the file; undefined for PostgreSQL. */
export function sqlitePath(databaseUrl: string): string | undefined {
  return databaseUrl.startsWith('sqlite:') ? databaseUrl.slice('sqlite:'.length) : undefined;
}
