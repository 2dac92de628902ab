/** The build outputs: the executable and the SDK package. */

import { beforeAll, describe, expect, test } from 'bun:test';
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { write } from './support/audit-export.ts';
import { temporaryFolder } from './support/cleanup.ts';
import { hostileFiles, runInHostileFolder } from './support/hostile-folder.ts';
import { installSdk } from './support/install-sdk.ts';
import { root, type Service, startService } from './support/service.ts';
import { isMissing } from './support/skip.ts';
import { openTestServer, sqlite, testMasterKey } from './support/test-server.ts';
import { openTestStore } from './support/test-store.ts';

const folder = temporaryFolder();

const noSetpriv = isMissing(
  Bun.which('setpriv') !== null && process.getuid?.() === 0,
  'the command of the systemd unit as its user: needs root and setpriv',
);

/** Returns standard output. Fails on an error. */
async function run(command: string[], options: { cwd?: string; env?: Record<string, string> } = {}) {
  const child = Bun.spawn(command, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'], ...options });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  expect({ code: await child.exited, err }).toEqual({ code: 0, err: '' });
  return out;
}

describe('the executable', () => {
  const sallyport = join(folder, 'sallyport');
  /** A PATH without Node, Bun or any other program. */
  const bare = { PATH: '/nowhere' };
  let service: Service | undefined;

  beforeAll(async () => {
    await run([process.execPath, '--no-env-file', join(root, 'deploy/build.ts'), sallyport], { cwd: root });
  });

  test('has a list of its parts next to it', () => {
    const { bomFormat, components } = JSON.parse(readFileSync(`${sallyport}.cdx.json`, 'utf8'));
    expect([bomFormat, components.length > 40]).toEqual(['CycloneDX', true]);
  });

  test('has the presets of destinations', async () => {
    const shown = await run([sallyport, 'destinations', 'presets', 'github', '--json'], { env: bare });
    expect(JSON.parse(shown)).toMatchObject({ origin: 'https://api.github.com' });
  });

  test('verifies an audit log with threads', async () => {
    const log = await openTestStore(sqlite);
    const tenant = await log.tenant();
    for (let number = 0; number < 40; number++) await write(log, 1, tenant);
    const env = { ...bare, DATABASE_URL: log.url, SALLYPORT_MASTER_KEY: testMasterKey };
    const verified = await run([sallyport, 'audit', 'verify', '--json'], { env });
    expect(JSON.parse(verified)).toMatchObject({ ok: true, entries: 40, segments: 40 });
  });

  test.each(['1', '2'])(
    'serves in an empty folder without other programs, with %s workers',
    async (workers) => {
      service = await startService({ ...bare, SALLYPORT_WORKERS: workers }, [sallyport, 'serve']);
      const { url } = service;
      const key = readFileSync(join(service.folder, 'data/management.key'), 'utf8').trim();
      const get = (path: string) => fetch(url + path, { headers: { 'SVC-API-KEY': key } });
      expect((await get('/readyz')).status).toBe(200);
      expect(await (await get('/docs')).text()).toContain('<html');
      const [script] = /\/console\/part-\w+\.js/.exec(await (await get('/console')).text()) ?? [];
      expect(await (await get(script as string)).text()).toContain('Sign in to Sallyport');
      expect(await (await get('/openapi.json')).json()).toHaveProperty('paths./applications');

      const env = { ...bare, SALLYPORT_URL: url, SALLYPORT_KEY: key, PORT: new URL(url).port };
      const text = join(folder, 'card');
      writeFileSync(text, '4242424242424242');
      const mask = '{{ data | reveal_last: 4 }}';
      const created = await run([sallyport, 'tokens', 'create', '--text-file', text, '--mask', mask], {
        env,
      });
      expect(created).toContain('XXXXXXXXXXXX4242');
      expect(await run([sallyport, 'apps', 'list', '--json'], { env })).toContain('management');
      expect(await run([sallyport, 'health'], { env })).toContain('is ready');

      service.process.kill('SIGTERM');
      expect(await service.process.exited).toBe(0);
      await expect(get('/readyz')).rejects.toThrow();
    },
  );

  test.skipIf(noSetpriv)(
    'serves as deploy/sallyport.service says, as a user without privileges',
    async () => {
      const unit = readFileSync(join(root, 'deploy/sallyport.service'), 'utf8');
      const valuesOf = (name: string) =>
        Array.from(unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm')), ([, value]) =>
          (value as string).replaceAll('%S', join(folder, 'state')),
        );
      const [data = ''] = valuesOf('WorkingDirectory');
      const environment = valuesOf('Environment');
      // The first step of docs/operations/deploy.md, as root. systemd then gives the folder to the user of the service.
      mkdirSync(data, { recursive: true });
      await run([sallyport, 'migrate'], { env: { ...bare, SALLYPORT_DATA_DIR: data } });
      const user = '61999';
      await run(['chown', '--recursive', `${user}:${user}`, data], {
        env: { PATH: process.env.PATH as string },
      });
      chmodSync(data, Number.parseInt(valuesOf('StateDirectoryMode')[0] as string, 8));
      chmodSync(folder, 0o711);

      const command = (valuesOf('ExecStart')[0] as string).replace('/usr/local/bin/sallyport', sallyport);
      const asUser = ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups', '--no-new-privs'];
      const settings = ['PATH=/usr/bin:/bin', 'PORT=0', 'SALLYPORT_DRAIN=0', ...environment];
      const umask = `umask ${valuesOf('UMask')[0]}; cd "$0" && exec "$@"`;
      service = await startService({}, [
        ...asUser,
        ...['--bounding-set=-all', '--inh-caps=-all', 'env', '--ignore-environment', ...settings],
        ...['sh', '-c', umask, data, ...command.split(' ')],
      ]);
      const status = readFileSync(`/proc/${service.process.pid}/status`, 'utf8');
      expect(status).toMatch(new RegExp(`^Uid:\\s+${user}\\s.*\\n(.*\\n)*CapBnd:\\s0+\\n`, 'm'));
      expect((await fetch(`${service.url}/readyz`)).status).toBe(200);
      const { uid, mode } = statSync(join(data, 'management.key'));
      expect([uid, mode & 0o777]).toEqual([Number(user), 0o600]);
      service.process.kill('SIGTERM');
      expect(await service.process.exited).toBe(0);
    },
  );

  test.each(Object.keys(hostileFiles))('runs no code from the current folder: %s', async (file) => {
    for (const printed of await runInHostileFolder(folder, file, [sallyport], bare))
      expect(printed).toStartWith('sallyport: error: no key was given');
  });
});

describe('the SDK, built and installed', () => {
  const project = join(folder, 'project');

  beforeAll(async () => {
    await installSdk(project);
    writeFileSync(join(project, 'package.json'), '{"type": "module"}');
  });

  test('creates and authorizes a session from Node', async () => {
    const server = await openTestServer(sqlite);
    const { key } = await server.tenant();
    writeFileSync(
      join(project, 'session.js'),
      `import { authorizeSession, NotFoundError, Sallyport, startSession } from '@sallyport/sdk';
       import { guardFetch } from '@sallyport/sdk/guard';
       const url = process.env.URL;
       const admin = new Sallyport({ url, key: process.env.KEY });
       const web = await admin.applications.create({ name: 'web', type: 'public', permissions: ['token:create'] });
       await admin.tokens.create({ id: 'card-1', data: '4242', mask: '{{ data | hide }}' });
       const session = await startSession({
         url,
         publicKey: web.key,
         authorize: (nonce) => authorizeSession(admin, nonce, { permissions: ['token:read'] }),
       });
       const seen = [];
       for await (const { id, data } of session.client.tokens.all()) seen.push([id, data]);
       const missing = await admin.tokens.get('none').catch((error) => error instanceof NotFoundError);
       console.log(JSON.stringify({ seen, missing, guard: typeof guardFetch }));`,
    );
    const env = { PATH: String(process.env.PATH), URL: server.url, KEY: key };
    const printed = await run(['node', 'session.js'], { cwd: project, env });
    await server.close();
    expect(JSON.parse(printed)).toEqual({ seen: [['card-1', 'XXXX']], missing: true, guard: 'function' });
  });

  test('has types that accept valid and reject invalid arguments', async () => {
    const typed = (type: string) => `import { type Application, Sallyport } from '@sallyport/sdk';
      const client = new Sallyport({ url: 'http://127.0.0.1:8080', key: 'k' });
      export const get = (id: string): Promise<Application> => client.applications.get(id);
      export const created = () => client.applications.create({ name: 'a', type: '${type}' });`;
    const tsc = join(root, 'node_modules/.bin/tsc');
    const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--types', ''];
    writeFileSync(join(project, 'right.ts'), typed('public'));
    await run([tsc, ...options, 'right.ts'], { cwd: project });
    writeFileSync(join(project, 'wrong.ts'), typed('secret'));
    const wrong = Bun.spawn([tsc, ...options, 'wrong.ts'], { cwd: project, stdout: 'pipe' });
    expect(await new Response(wrong.stdout).text()).toContain(`Type '"secret"' is not assignable`);
  });
});
