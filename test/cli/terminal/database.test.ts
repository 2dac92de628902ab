import { expect, test } from 'bun:test';
import { databaseLabel } from '../../../src/cli/terminal/database.ts';
import { readConfig } from '../../../src/config.ts';

test.each([
  ['postgres://db.example.com/sallyport', 'postgres://db.example.com/sallyport'],
  ['postgresql://sallyport@db:5432/sallyport', 'postgres://db:5432/sallyport'],
  ['postgres://sallyport:secret@db:5432/sallyport', 'postgres://db:5432/sallyport'],
  ['postgres://sallyport:secret@db/sallyport?sslmode=require', 'postgres://db/sallyport'],
  ['postgres://db/sallyport?user=u&password=secret', 'postgres://db/sallyport'],
  ['postgres://sallyport:se@cret/x@127.0.0.1:5432/sallyport', 'postgres://127.0.0.1:5432/sallyport'],
  ['postgres://sallyport:a@se?cret@127.0.0.1/sallyport', 'postgres://…'],
  ['postgres://sallyport:a@se#cret@127.0.0.1/sallyport', 'postgres://…'],
  ['postgres://db/sallyport?password=se@cret', 'postgres://…'],
])('the label of %s has no part of the password', (address, label) => {
  const { databaseUrl } = readConfig({ env: { DATABASE_URL: address } });
  expect(databaseLabel(databaseUrl)).toBe(label);
});
