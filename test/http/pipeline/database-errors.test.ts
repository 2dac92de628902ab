import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { type Db, DbUnavailable } from '../../../src/db/db.ts';
import { databases, openTestServer, type TestServer } from '../../support/test-server.ts';

describe.each(databases)('when only credentials can be read on %s', (_, database) => {
  let server: TestServer;
  let key: string;
  let down = false;
  const stray: unknown[] = [];
  const note = (error: unknown) => stray.push(error);

  /** SQLite fails synchronously, PostgreSQL asynchronously. */
  const failing = (db: Db): Db => {
    const broken = () => {
      const error = new DbUnavailable('it does not read');
      if (db.dialect === 'sqlite') throw error;
      return Promise.reject(error);
    };
    return {
      ...db,
      get: (statement) => (down ? broken() : db.get(statement)),
      all: (statement) => (down ? broken() : db.all(statement)),
    };
  };

  beforeAll(async () => {
    server = await openTestServer(database, {}, failing);
    key = (await server.tenant()).key;
    process.on('unhandledRejection', note);
  });
  afterEach(() => {
    down = false;
  });
  afterAll(async () => {
    process.off('unhandledRejection', note);
  });

  test.each(['/applications', '/tokens', '/sessions', '/logs', '/tenants/self'])(
    'GET %s returns 503 and leaves no unhandled rejection',
    async (path) => {
      down = true;
      expect(await server.call('GET', path, { key })).toMatchObject({ status: 503 });
      await new Promise(setImmediate);
      expect(stray).toEqual([]);
      down = false;
      expect((await server.call('GET', path, { key })).status).toBe(200);
    },
  );
});
