import { afterAll, beforeAll } from 'bun:test';
import { openTestServer, type TestServer } from './test-server.ts';

/** Opens the service before the tests of a file or a `describe`, and closes it after them. */
export function serve(...options: Parameters<typeof openTestServer>): TestServer {
  let server: TestServer | undefined;
  beforeAll(async () => {
    server = await openTestServer(...options);
  });
  afterAll(() => server?.close());
  return new Proxy({} as TestServer, {
    get: (_, name) => {
      if (!server) throw new Error('the service is opened before the first test, not before');
      return Reflect.get(server, name);
    },
  });
}
