import { expect, test } from 'bun:test';
import { readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/cleanup.ts';
import { program, root, type Service, startService } from '../../support/service.ts';
import { isMissing } from '../../support/skip.ts';

let service: Service;

test('a signal that a launcher forwards counts once', async () => {
  service = await startService();
  service.process.kill('SIGINT');
  service.process.kill('SIGTERM');
  expect(await service.process.exited).toBe(0);
});

test('closing the terminal stops the service', async () => {
  service = await startService();
  service.process.kill('SIGHUP');
  expect(await service.process.exited).toBe(0);
});

const noProc = isMissing(process.platform === 'linux', 'test of nohup: it needs /proc of Linux');
test.skipIf(noProc)('a service started with nohup survives the closing of the terminal', async () => {
  service = await startService({}, ['sh', '-c', 'trap "" HUP; exec "$@"', 'sh', ...program]);
  const status = readFileSync(`/proc/${service.process.pid}/status`, 'utf8');
  const ignored = BigInt(`0x${/^SigIgn:\s+(\w+)$/m.exec(status)?.[1]}`);
  expect(ignored & 1n).toBe(1n);
  service.process.kill('SIGHUP');
  expect((await fetch(`${service.url}/livez`)).status).toBe(200);
  service.process.kill('SIGTERM');
  expect(await service.process.exited).toBe(0);
});

test('a second signal exits without draining', async () => {
  service = await startService({ SALLYPORT_DRAIN: '300' });
  const repeat = setInterval(() => service.process.kill('SIGTERM'), 50);
  expect(await service.process.exited).toBe(130);
  clearInterval(repeat);
  expect(await new Response(service.process.stderr).text()).toEndWith(
    'sallyport: warning: interrupted twice; exited without draining\n',
  );
});

test('workers stop with their supervisor', async () => {
  service = await startService({ SALLYPORT_WORKERS: '2' });
  service.process.kill('SIGTERM');
  expect(await service.process.exited).toBe(0);
  await expect(fetch(`${service.url}/livez`)).rejects.toThrow();
});

test('a signal to npm start stops the service, and npm waits for it', async () => {
  // A copy of the project folder without .env and data/.
  const project = temporaryFolder();
  for (const name of ['package.json', 'src', 'node_modules'])
    symlinkSync(join(root, name), join(project, name));
  service = await startService({}, ['npm', '--prefix', project, 'start']);
  service.process.kill('SIGTERM');
  expect(await service.process.exited).toBe(0);
  await expect(fetch(`${service.url}/livez`)).rejects.toThrow();
});
