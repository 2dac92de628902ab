/** `sallyport apply` with files of a tenant of its own. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Said, type Surroundings, shell } from './shell.ts';
import type { TestServer } from './test-server.ts';

export interface Applying {
  readonly folder: string;
  /** Of the tenant's first management Application. */
  readonly key: string;
  /** With this text as `access.yaml`. */
  apply(yaml: string, options?: string[], surroundings?: Surroundings): Promise<Said>;
  /** All that the tenant has, by name. */
  applications(): Promise<Record<string, { id: string; [field: string]: unknown }>>;
  clear(): void;
}

export async function openApplying(world: TestServer): Promise<Applying> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-apply-'));
  const { key } = await world.tenant();
  return {
    folder,
    key,
    apply: (yaml, options = [], surroundings = {}) => {
      const file = join(folder, 'access.yaml');
      writeFileSync(file, yaml);
      const env = { SALLYPORT_URL: world.url, SALLYPORT_KEY: key };
      return shell(['apply', file, ...options], { ...surroundings, env });
    },
    applications: async () => {
      const { body } = await world.call('GET', '/applications?size=100', { key });
      return Object.fromEntries(body.data.map((one: { name: string }) => [one.name, one]));
    },
    clear: () => rmSync(folder, { recursive: true }),
  };
}
