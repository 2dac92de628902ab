/** The service stays below the memory limit of its container, also with clients that do not read their responses. */
import { afterAll, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { program, type Service, startService } from './support/service.ts';
import { isMissing } from './support/skip.ts';
import { until } from './support/until.ts';

/** As in the chart and the manifests. */
const limit = 512 * 1024 * 1024;
const applications = 14;
const clientsOfEach = 9;

/** The kernel kills a process in it that exceeds the limit. Undefined if the machine does not let this user create it. */
function memoryGroup(): string | undefined {
  for (const [parent, file] of [
    ['/sys/fs/cgroup/memory', 'memory.limit_in_bytes'],
    ['/sys/fs/cgroup', 'memory.max'],
  ] as const) {
    const group = join(parent, `sallyport-test-${process.pid}`);
    try {
      mkdirSync(group);
      afterAll(() => rmdirSync(group));
      writeFileSync(join(group, file), String(limit));
      return group;
    } catch {}
  }
  return undefined;
}

const group = memoryGroup();
isMissing(group !== undefined, 'the memory limit by the kernel: no cgroup can be created');

test('126 clients that do not read pages of 8 MiB, and large bodies, do not take more than 512 MiB', async () => {
  const inGroup = ['sh', '-c', `echo $$ > ${group}/cgroup.procs; exec "$@"`, 'sh', ...program];
  await using service = disposable(
    await startService(
      // In the group, the service finds the limit itself.
      group === undefined ? { SALLYPORT_MEMORY: String(limit) } : {},
      group === undefined ? program : inGroup,
    ),
  );
  const management = readFileSync(join(service.folder, 'data/management.key'), 'utf8').trim();
  const call = (method: string, path: string, key: string, body: object) =>
    fetch(service.url + path, {
      method,
      headers: { 'SVC-API-KEY': key, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
  const rule = {
    priority: 1,
    transform: 'reveal',
    container: '/',
    permissions: ['token:read', 'token:create'],
  };
  const keys: string[] = [];
  for (let n = 0; n < applications; n++) {
    const created = await call('POST', '/applications', management, {
      name: `${n}`,
      type: 'private',
      rules: [rule],
    });
    keys.push(((await created.json()) as { key: string }).key);
  }
  const large = { data: 'x'.repeat(1_000_000) };
  for (let n = 0; n < 9; n++)
    expect((await call('POST', '/tokens', keys[0] as string, large)).status).toBe(201);

  const statuses: string[] = [];
  const ask = async (key: string) => {
    const { hostname, port } = new URL(service.url);
    const data = (socket: { pause(): void }, chunk: Buffer) => {
      socket.pause();
      statuses.push(chunk.toString('latin1', 9, 12));
    };
    const socket = await Bun.connect({ hostname, port: Number(port), socket: { data } });
    socket.write(`GET /tokens HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${key}\r\n\r\n`);
    return socket;
  };
  const asking = keys.flatMap((key) => Array.from({ length: clientsOfEach }, () => ask(key)));
  const sockets = await Promise.all(asking);
  await until(
    'every response',
    () => statuses.length === sockets.length || service.process.signalCode !== null,
  );
  const stored = await Promise.all(
    keys.flatMap((key) => [1, 2, 3].map(() => call('POST', '/tokens', key, large))),
  );

  expect([...new Set(statuses)].sort().join()).toMatch(/^200,429(,503)?$/);
  expect(new Set(stored.map(({ status }) => status)).isSubsetOf(new Set([201, 429, 503]))).toBe(true);
  for (const socket of sockets) socket.terminate();
  const peak =
    Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${service.process.pid}/status`, 'utf8'))?.[1]) * 1024;
  expect(peak).toBeLessThan(limit);
});

function disposable(service: Service) {
  return { ...service, [Symbol.asyncDispose]: service.close };
}
