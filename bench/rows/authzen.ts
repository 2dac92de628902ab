/** The same AuthZEN request, answered by Sallyport and by Cerbos. Cerbos is on npm for x64, and takes 90 MB. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compare, cpuTime, type Effort, type Sample, seriesOf, underLoad } from '../compare.ts';
import type { Environment } from '../environment.ts';
import { type Row, rowOf } from '../report.ts';
import { requestBytes, type Server, startServer } from '../servers.ts';

const cerbos = '@cerbos/cerbos-linux-x64';
const path = '/access/v1/evaluation';
const policy = {
  apiVersion: 'api.cerbos.dev/v1',
  resourcePolicy: {
    resource: 'invoice',
    version: 'default',
    rules: [
      {
        actions: ['read'],
        effect: 'EFFECT_ALLOW',
        roles: ['*'],
        condition: { match: { expr: 'R.attr.container.startsWith("/customers/")' } },
      },
    ],
  },
};

export async function authzenRows({ onSqlite, onPostgres }: Environment, effort: Effort): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-cerbos-'));
  const install = ['npm', 'install', '--prefix', folder, '--no-audit', '--no-fund', `${cerbos}@0.51.0`];
  if (process.arch !== 'x64' || Bun.spawnSync(install).exitCode !== 0) {
    console.log(`Cerbos is left out: npm has no ${cerbos} for this machine, or cannot be reached`);
    return [];
  }
  const peer = await startCerbos(folder);
  const request = (id: string, key: string) => {
    const resource = { type: 'invoice', id: 'invoice-7', properties: { container: '/customers/42/' } };
    const body = { subject: { type: 'application', id }, action: { name: 'read' }, resource };
    return { requests: [requestBytes('POST', path, key, body)], status: 200 };
  };
  const services = { SQLite: onSqlite, PostgreSQL: onPostgres };
  const candidates = Object.entries(services).map(([name, { backend, database, pid, port }]) =>
    underLoad(name, pid, { port, ...request(backend.id, backend.key) }, database),
  );
  const theirs = underLoad('cerbos', peer.pid, { port: peer.port, ...request('billing', '') });
  const series = await compare([...candidates, theirs], effort);
  await peer.stop();
  rmSync(folder, { recursive: true });
  return Object.keys(services).map((database) =>
    rowOf(
      {
        group: 'decisions',
        work: `POST ${path}, ${database}`,
        baseline: 'Cerbos, the same AuthZEN request with a policy from a file',
        unit: '/s of CPU time',
        min: 8,
      },
      seriesOf(series, database),
      seriesOf(series, 'cerbos'),
      (sample: Sample) => 1e6 / cpuTime(sample),
    ),
  );
}

/** Resolves when it answers. */
async function startCerbos(folder: string): Promise<Server> {
  const [http, grpc] = [0, 0].map(() => {
    const probe = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() });
    const { host } = probe.url;
    probe.stop(true);
    return host;
  });
  const storage = { driver: 'disk', disk: { directory: join(folder, 'policies') } };
  const config = {
    server: { httpListenAddr: http, grpcListenAddr: grpc },
    storage,
    telemetry: { disabled: true },
  };
  await Bun.write(join(folder, 'policies/invoice.json'), JSON.stringify(policy));
  writeFileSync(join(folder, 'cerbos.json'), JSON.stringify(config));
  const program = join(folder, 'node_modules', cerbos, 'cerbos-linux-x64');
  const command = `echo listening on http://${http}; exec ${program} server --log-level=ERROR --config=${folder}/cerbos.json >${folder}/log 2>&1`;
  const server = await startServer(['sh', '-c', command]);
  for (let attempt = 0; attempt < 100; attempt++) {
    if (
      await fetch(`${server.url}/_cerbos/health`).then(
        ({ ok }) => ok,
        () => false,
      )
    )
      return server;
    await Bun.sleep(100);
  }
  throw new Error('Cerbos did not start within ten seconds');
}
