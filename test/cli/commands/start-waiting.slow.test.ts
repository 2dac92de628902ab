import { beforeEach, describe, expect, test } from 'bun:test';
import { writeFile } from 'node:fs/promises';
import { freePort } from '../../support/postgres.ts';
import {
  duringTransaction,
  maintenanceLock,
  untilBlocked,
  untilNoneBlocked,
} from '../../support/postgres-locks.ts';
import { ProgramFolder } from '../../support/program.ts';
import { openTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';
import { postgres, testMasterKey } from '../../support/test-server.ts';

describe('a start that waits', () => {
  let url: string;
  let port: number;
  let folder: ProgramFolder;
  beforeEach(async () => {
    url = await postgres.createEmpty('');
    port = freePort();
    folder = new ProgramFolder();
  });

  const settings = () => ({ DATABASE_URL: url, PORT: String(port), SALLYPORT_MASTER_KEY: testMasterKey });
  const status = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).status;

  test.each([['1'], ['2']])(
    'for the migration of another node logs it, is live but not ready, and stops: %s worker(s)',
    async (workers) => {
      await duringTransaction(url, maintenanceLock, async () => {
        const node = folder.start(['serve'], { ...settings(), SALLYPORT_WORKERS: workers });
        await node.until(/startup is waiting.*(migration of the database)/);
        expect(await status('/livez')).toBe(200);
        expect(await status('/readyz')).toBe(503);
        node.kill('SIGTERM');
        expect(await node.ended).toBe(0);
        await untilNoneBlocked(url);
      });
    },
  );

  test('does not continue to wait in the database if the process is killed', async () => {
    await duringTransaction(url, maintenanceLock, async () => {
      const node = folder.start(['serve'], settings());
      await untilBlocked(url);
      node.kill('SIGKILL');
      await node.ended;
      await untilNoneBlocked(url);
    });
  });

  test('for another node becomes ready on the same port when that node is done', async () => {
    const waiting = await duringTransaction(url, maintenanceLock, async () => {
      const node = folder.start(['serve'], settings());
      await node.until(/(startup is waiting)/);
      return { node };
    });
    await waiting.node.until(/(listening on) http/);
    expect(await status('/readyz')).toBe(200);
    waiting.node.kill('SIGTERM');
    expect(await waiting.node.ended).toBe(0);
  });

  describe('for a database that does not answer', () => {
    let proxy: TcpProxy;
    beforeEach(async () => {
      proxy = await openTcpProxy(Number(new URL(url).port));
      proxy.setMode('swallow');
    });

    const start = async (command: string) => {
      const DATABASE_URL = url.replace(`:${new URL(url).port}/`, `:${proxy.port}/`);
      const env = { ...settings(), DATABASE_URL, SALLYPORT_DATABASE_TIMEOUT: '800' };
      const node = folder.start(command.split(' '), env);
      await node.until(/waiting.*(a connection to the database)/);
      return node;
    };

    test('continues when it answers', async () => {
      const migrating = await start('migrate');
      proxy.setMode('pass');
      expect(await migrating.ended).toBe(0);
      proxy.setMode('swallow');
      const node = await start('serve');
      proxy.setMode('pass');
      await node.until(/(listening on) http/);
      node.kill('SIGTERM');
      expect(await node.ended).toBe(0);
    });

    test.each([['doctor'], ['tenants list']])(
      'is reported by the command %s, which then fails',
      async (name) => {
        const command = await start(name);
        expect(await command.ended).toBeGreaterThan(0);
      },
    );

    test('stops', async () => {
      const node = await start('serve');
      node.kill('SIGTERM');
      expect(await node.ended).toBe(0);
    });
  });

  test('of the command `migrate` prints what it waits for, and migrates afterwards', async () => {
    const waiting = await duringTransaction(url, maintenanceLock, async () => {
      const command = folder.start(['migrate'], settings());
      await command.until(/waiting for (the migration of the database)/);
      return { command };
    });
    expect(await waiting.command.ended).toBe(0);
    expect((await folder.run(['migrate'], settings())).out).toContain('schema is up to date');
  });

  test('for a slow command that prints the master key says so', async () => {
    const pipe = folder.path('key.pipe');
    expect(Bun.spawnSync(['mkfifo', pipe]).exitCode).toBe(0);
    const { SALLYPORT_MASTER_KEY: _, ...rest } = settings();
    const node = folder.start(['serve'], { ...rest, SALLYPORT_MASTER_KEY_COMMAND: `cat ${pipe}` });
    await node.until(/startup is waiting.*(the output of cat, the command in SALLYPORT_MASTER_KEY_COMMAND)/);
    expect([await status('/livez'), await status('/readyz')]).toEqual([200, 503]);
    await writeFile(pipe, testMasterKey);
    await node.until(/(listening on) http/);
    node.kill('SIGTERM');
    expect(await node.ended).toBe(0);
  });

  test('does not happen without a migration to run', async () => {
    expect((await folder.run(['migrate'], settings())).code).toBe(0);
    const first = await folder.serve(settings());
    first.kill('SIGTERM');
    await first.ended;
    await duringTransaction(url, maintenanceLock, async () => {
      const second = await folder.serve(settings());
      expect(await status('/readyz')).toBe(200);
      second.kill('SIGTERM');
      await second.ended;
    });
  });
});
