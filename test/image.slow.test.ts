/** The container image, built from deploy/Dockerfile and run as docs/operations/deploy.md says, and deploy/compose.yaml. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { chownSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { SQL } from 'bun';
import { parse } from 'yaml';
import { temporaryFolder } from './support/cleanup.ts';
import {
  buildImage,
  type Container,
  createContainer,
  type Image,
  noBuildah,
  removeImage,
} from './support/image.ts';
import { freePort, type Postgres, startPostgres } from './support/postgres.ts';
import { root } from './support/service.ts';
import { until } from './support/until.ts';

describe.skipIf(noBuildah)('the image', () => {
  let image: Image;
  let container: Container;
  let volume: string;

  beforeAll(() => {
    image = buildImage();
  });
  afterAll(() => removeImage(image));

  /** Docker gives a new volume the owner that the folder has in the image. */
  function create(hosts: string[] = []): void {
    volume = temporaryFolder();
    const [user = 0, group = 0] = image.user.split(':').map(Number);
    chownSync(volume, user, group);
    container = createContainer(image, volume, hosts);
  }
  afterEach(() => {
    container.remove();
  });

  const migrate = (env: Record<string, string>) =>
    container.run([...image.entrypoint, 'migrate', '--require-existing', 'false'], env);

  /** Serves until the work is done. Returns the exit code and the output. */
  async function serving(env: Record<string, string>, work: (url: string) => Promise<void>) {
    const port = String(freePort());
    const settings = { ...env, PORT: port };
    const service = container.start([...image.entrypoint, ...image.command], settings);
    const isHealthy = () => container.run(image.healthCheck, settings).code === 0;
    let code: number | undefined;
    try {
      await until('the health check of the image succeeds', isHealthy);
      await work(`http://127.0.0.1:${port}`);
    } finally {
      code = await service.stop();
    }
    return { code, output: service.output() };
  }

  test('refuses an empty volume, and serves after `migrate` has created the database', async () => {
    create();
    const refused = container.run([...image.entrypoint, ...image.command]);
    expect(refused.code).not.toBe(0);
    expect(refused.output).toContain('SALLYPORT_REQUIRE_EXISTING is true, but');
    expect(migrate({})).toMatchObject({ code: 0 });

    const { code, output } = await serving({ SALLYPORT_FRAMES_URL: 'http://localhost:1' }, async (url) => {
      const key = readFileSync(join(volume, 'management.key'), 'utf8').trim();
      const headers = { 'SVC-API-KEY': key, 'Content-Type': 'application/json' };
      const created = await fetch(`${url}/applications`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ name: 'web', type: 'public', permissions: ['token:create'] }),
      });
      expect(created.status).toBe(201);
      expect(await (await fetch(`${url}/readyz`)).json()).toMatchObject({
        version: expect.stringContaining('abc1234'),
      });
      for (const path of ['/console', '/docs']) expect((await fetch(url + path)).status).toBe(200);
      // As with `docker exec`, in the data folder.
      expect(container.run([...image.entrypoint, 'doctor'])).toMatchObject({ code: 0 });
    });
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining('management.key') });
    const owners = ['sallyport.db', 'master.key', 'management.key'].map(
      (file) => statSync(join(volume, file)).uid,
    );
    expect(owners).toEqual([65532, 65532, 65532]);
  });

  test('serves with PostgreSQL as deploy/compose.yaml says', async () => {
    const { services } = parse(readFileSync(join(root, 'deploy/compose.yaml'), 'utf8'));
    const variables = {
      POSTGRES_PASSWORD: 'secret',
      SALLYPORT_MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
    };
    const interpolated = (values: Record<string, string>) =>
      Object.fromEntries(
        Object.entries(values).map(([name, value]) => [
          name,
          value.replace(
            /\$\{(\w+):\?[^}]*\}/g,
            (_, variable) => variables[variable as keyof typeof variables],
          ),
        ]),
      );
    const database = interpolated(services.database.environment);
    const environment = interpolated(services.sallyport.environment);
    const server: Postgres = await startPostgres({});
    try {
      const admin = new SQL(server.url, { max: 1 });
      await admin.unsafe(
        `create role ${database.POSTGRES_USER} login password '${database.POSTGRES_PASSWORD}'`,
      );
      await admin.unsafe(`create database ${database.POSTGRES_DB} owner ${database.POSTGRES_USER}`);
      await admin.close();
      const url = new URL(environment.DATABASE_URL as string);
      expect(url.port).toBe('5432');
      url.port = String(server.port);
      const settings = { ...environment, DATABASE_URL: url.href };
      create([url.hostname]);
      expect(migrate(settings)).toMatchObject({ code: 0 });
      const { code } = await serving(settings, async (base) => {
        const key = readFileSync(join(volume, 'management.key'), 'utf8').trim();
        const read = await fetch(`${base}/applications/key`, { headers: { 'SVC-API-KEY': key } });
        expect(await read.json()).toMatchObject({ type: 'management' });
      });
      expect(code).toBe(0);
    } finally {
      await server.stop();
    }
  });
});
