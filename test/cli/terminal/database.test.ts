import { expect, test } from 'bun:test';
import { databaseLabel, unavailableHint } from '../../../src/cli/terminal/database.ts';
import { readConfig } from '../../../src/config/settings.ts';

test.each([
  ['postgres://db.example.com/sallyport', 'postgres://db.example.com/sallyport'],
  ['postgresql://sallyport@db:5432/sallyport', 'postgres://db:5432/sallyport'],
  ['postgres://sallyport:secret@db:5432/sallyport', 'postgres://db:5432/sallyport'],
  ['postgres://sallyport:secret@db/sallyport?sslmode=require', 'postgres://db/sallyport'],
  ['postgres://sallyport:se%40cret%2Fx@127.0.0.1:5432/sallyport', 'postgres://127.0.0.1:5432/sallyport'],
])('the label of %s has no part of the password', (address, label) => {
  const { databaseUrl } = readConfig({ env: { DATABASE_URL: address } });
  expect(databaseLabel(databaseUrl)).toBe(label);
});

test.each([
  'postgres://db/sallyport?user=u&password=secret',
  'postgres://sallyport:a@secret/x@127.0.0.1:5432/sallyport',
  'postgres://sallyport:a@b?secret@127.0.0.1/sallyport',
  'postgres://sallyport:a@b#secret@127.0.0.1/sallyport',
  'postgres://db/sallyport?password=secret',
])('the error about %s has no part of the password', (address) => {
  const read = () => readConfig({ env: { DATABASE_URL: address } });
  expect(read).toThrow('DATABASE_URL');
  expect(read).not.toThrow('secret');
});

test.each([
  ['sqlite:data/sallyport.db', 'database or disk is full', 'free at least 64 MiB'],
  ['sqlite:data/sallyport.db', 'unable to open database file', 'may write to the file'],
  ['postgres://db/sallyport', 'db:5432 has a restored or copied database. Revoked …', 'Restore PostgreSQL'],
  ['postgres://db/sallyport', 'db:5432 is behind: it has beat 1', 'A server that is behind'],
  ['postgres://db/sallyport', 'could not extend file: No space left on device', 'free space on the disk'],
  ['postgres://db/sallyport', 'connection refused', 'check that the database runs'],
])('the hint about %s, "%s", says what to do', (databaseUrl, reason, hint) => {
  expect(unavailableHint(databaseUrl, reason)).toContain(hint);
});
