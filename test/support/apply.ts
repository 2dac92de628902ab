/** Runs `sallyport apply` with a file, for a new tenant in each test. */
import { beforeAll, beforeEach } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './cleanup.ts';
import { apiShell, type ShellOptions, type ShellResult } from './shell.ts';
import { openTestServer, sqlite, type TestServer } from './test-server.ts';

export interface ApplyFixture {
  readonly server: TestServer;
  /** A folder for the files of one test. */
  readonly folder: string;
  /** The first management key of the tenant. */
  readonly key: string;
  /** Writes the text to `access.yaml` and applies it. Lets the command print keys, unless it gets `--keys-dir`. */
  apply(yaml: string, options?: string[], shellOptions?: ShellOptions): Promise<ShellResult>;
  /** All applications of the tenant by name. */
  applications(): Promise<Record<string, { id: string; [field: string]: unknown }>>;
}

/** Registers hooks that open one server for the test file, and a folder and a tenant for each test. */
export function setUpApply(): ApplyFixture {
  let server: TestServer;
  let folder: string;
  let key: string;
  beforeAll(async () => {
    server = await openTestServer(sqlite);
  });
  beforeEach(async () => {
    folder = temporaryFolder();
    ({ key } = await server.tenant());
  });
  return {
    get server() {
      return server;
    },
    get folder() {
      return folder;
    },
    get key() {
      return key;
    },
    apply: (yaml, options = [], shellOptions = {}) => {
      const file = join(folder, 'access.yaml');
      writeFileSync(file, yaml);
      const printing = options.includes('--keys-dir') ? [] : ['--print-keys'];
      return apiShell(server.url, key).call(['apply', file, ...printing, ...options], shellOptions);
    },
    applications: async () => {
      const { body } = await server.call('GET', '/applications?size=100', { key });
      return Object.fromEntries(body.data.map((one: { name: string }) => [one.name, one]));
    },
  };
}
