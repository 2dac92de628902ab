/** Installs the packed SDK and the packed server into an empty project, and runs a session there. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createProject, offline, type Packed, type Project } from './support/packages.ts';
import { readExample } from './support/page-examples.ts';
import { root, type Service, startService } from './support/service.ts';

/** A session in the project: the page creates it, the backend authorizes it, and the page reads masked data. */
const session = `
async function main() {
  const [url, key] = [process.env.URL, readFileSync(process.env.KEY_FILE, 'utf8').trim()];
  const management = new Sallyport({ url, key });
  const page = await management.applications.create({ name: 'page', type: 'public', permissions: ['token:create'] });
  const { id } = await management.tokens.create({
    container: '/customers/42/', data: '4242424242424242', mask: '{{ data | reveal_last: 4 }}',
  });
  const own = { attribute: 'container', operator: 'starts_with', value: '/customers/42/' };
  const rules = [{ priority: 1, transform: 'mask', permissions: ['token:read'], conditions: [own] }];
  const { client } = await startSession({
    url, publicKey: page.key, authorize: (nonce) => authorizeSession(management, nonce, { rules }),
  });
  const { data } = await client.tokens.get(id);
  const denied = await client.tokens.create({ data: 'x' }).catch((error) => error instanceof PermissionError);
  console.log(data, denied, typeof guardFetch);
}
main();
`;
const names = 'authorizeSession, PermissionError, Sallyport, startSession';

const types = `
import { type BuiltInPermission, Sallyport } from '@sallyport/sdk';
import { guardFetch } from '@sallyport/sdk/guard';
import { type FakeSallyport, fakeSallyport } from '@sallyport/sdk/testing';

const client = new Sallyport({ url: 'http://127.0.0.1', key: 'x' });
export async function ids(): Promise<string[]> {
  await client.applications.create({ name: 'a', type: 'private', permissions: ['token:read', 'invoice:read'] });
  const { data } = await client.tokens.list({ size: 1 });
  return data.map((token) => token.id);
}
export const guard = guardFetch;
export const fake: FakeSallyport = fakeSallyport({ sessionTtl: 60 });
export const faked = new Sallyport(fake);
export const permission: BuiltInPermission = 'token:read';
`;

const wrongTypes = `
import { type BuiltInPermission, Sallyport } from '@sallyport/sdk';

export const misspelt: BuiltInPermission = 'token:reed';
export const create = (client: Sallyport) => client.applications.create({ name: 'a', type: 'secret' });
`;

describe.skipIf(offline)('packed SDK and server', () => {
  let project: Project;
  let service: Service;
  beforeAll(async () => {
    project = await createProject();
    const command = [join(project.folder, 'node_modules/.bin/sallyport'), 'serve'];
    service = await startService({}, command);
  });
  afterAll(async () => {
    // The launcher forwards SIGTERM to Bun; SIGKILL would leave Bun running.
    service.process.kill('SIGTERM');
    await service.process.exited;
    project.remove();
  });

  const installed = (path: string) => join(project.folder, 'node_modules', path);
  const write = (name: string, text: string) => {
    mkdirSync(dirname(join(project.folder, name)), { recursive: true });
    writeFileSync(join(project.folder, name), text);
  };

  test('the SDK is built when it is packed, and holds code, types and README', () => {
    const modules = ['esm', 'cjs'].flatMap((folder) =>
      ['sallyport', 'guard', 'react', 'testing', 'client', 'api'].flatMap((name) => [
        `dist/${folder}/${name}.js`,
        `dist/${folder}/${name}.d.ts`,
      ]),
    );
    expect(project.sdk.files).toEqual(
      expect.arrayContaining(['README.md', 'LICENSE', 'package.json', ...modules]),
    );
    expect(
      project.sdk.files.filter((path) => !/^(dist\/|README\.md|LICENSE|package\.json)/.test(path)),
    ).toEqual([]);
    const { exports } = JSON.parse(readFileSync(installed('@sallyport/sdk/package.json'), 'utf8'));
    const targets = JSON.stringify(exports).matchAll(/"\.\/([^"]+)"(?!:)/g);
    for (const [, target] of targets) expect(project.sdk.files).toContain(target!);
  });

  test('the server holds what it runs, and no tests', () => {
    expect(project.server.files).toEqual(
      expect.arrayContaining(['bin/sallyport.mjs', 'src/main.ts', 'docs/reference/access-file.schema.json']),
    );
    const unwanted = /^(test|bench|torture|mutation|demo|deploy|data|node_modules)\/|\.key$|\.env$/;
    expect(project.server.files.filter((path) => unwanted.test(path))).toEqual([]);
  });

  test.each(['sdk', 'server'] as const)('every relative link in the README of the %s works', (name) => {
    const { files }: Packed = project[name];
    const readme = readFileSync(join(root, name === 'sdk' ? 'sdk' : '.', 'README.md'), 'utf8');
    const links = [...readme.matchAll(/\]\((?!\w+:|#)([^)#\s]+)/g)].map(([, link]) =>
      join(dirname('README.md'), link!),
    );
    expect(links.filter((link) => !files.includes(link))).toEqual([]);
  });

  test('npx sallyport runs the command line', async () => {
    const { version } = JSON.parse(readFileSync(installed('sallyport/package.json'), 'utf8'));
    expect(await project.run('npx', '--no', 'sallyport', 'version')).toBe(`${version}\n`);
    const keyFile = join(service.folder, 'data/management.key');
    const out = await project.run(
      'npx',
      '--no',
      'sallyport',
      'whoami',
      '--url',
      service.url,
      '--key-file',
      keyFile,
    );
    expect(out).toContain('management');
  });

  test.each([
    [
      'ES modules',
      'session.mjs',
      `import { ${names} } from '@sallyport/sdk';\nimport { guardFetch } from '@sallyport/sdk/guard';\nimport { readFileSync } from 'node:fs';`,
    ],
    [
      'CommonJS',
      'session.cjs',
      `const { ${names} } = require('@sallyport/sdk');\nconst { guardFetch } = require('@sallyport/sdk/guard');\nconst { readFileSync } = require('node:fs');`,
    ],
  ])('a session works with %s', async (_, file, imports) => {
    write(file, imports + session);
    const keyFile = join(service.folder, 'data/management.key');
    const out = await project.run('env', `URL=${service.url}`, `KEY_FILE=${keyFile}`, 'node', file);
    expect(out).toBe('XXXXXXXXXXXX4242 true function\n');
  });

  describe('the test kit', () => {
    const { files } = readExample('docs/guides/test-your-application.md');
    const guide = files['support.test.mjs'] as string;
    const passing = (out: string) => out.match(/^# pass (\d+)/m)?.[1];
    const nodeTest = (file: string) => project.run('node', '--test', '--test-reporter=tap', file);
    beforeAll(() => {
      for (const [name, text] of Object.entries(files)) write(name, text);
    });

    test('runs in Node as ES module and as CommonJS module', async () => {
      const readme = readFileSync(join(root, 'sdk/README.md'), 'utf8');
      const [, example = ''] = /^## Tests\n.*?```js\n(.*?)```/ms.exec(readme) ?? [];
      write('readme.test.mjs', example);
      expect(passing(await nodeTest('readme.test.mjs'))).toBe('1');
      write('readme.test.cjs', example.replaceAll(/^import (.*) from (.*);$/gm, 'const $1 = require($2);'));
      expect(passing(await nodeTest('readme.test.cjs'))).toBe('1');
    });

    test('answers while timers are replaced', async () => {
      const timers = `import { mock } from 'node:test';\nmock.timers.enable({ now: Date.now() });\n`;
      write('timers.test.mjs', `${guide}${timers}`);
      expect(passing(await nodeTest('timers.test.mjs'))).toBe('3');
    });

    test('runs in Vitest and Jest', async () => {
      await project.run(
        'npm',
        'install',
        '--no-audit',
        '--no-fund',
        '--prefer-offline',
        'vitest@3',
        'jest@30',
      );
      write('vitest/support.test.mjs', guide.replace("'node:test'", "'vitest'").replace("'./", "'../"));
      const vitest = await project.run('npx', '--no', 'vitest', 'run', '--dir', 'vitest', '--reporter=json');
      expect(JSON.parse(vitest.slice(vitest.indexOf('{')))).toMatchObject({
        numPassedTests: 3,
        success: true,
      });
      write('jest/support.test.mjs', guide.replace(/^import .*'node:test';$/m, '').replace("'./", "'../"));
      const options = ['--testMatch=**/jest/*.test.mjs', '--json', '--transform={}'];
      const jest = await project.run(
        'env',
        'NODE_OPTIONS=--experimental-vm-modules',
        'npx',
        'jest',
        ...options,
      );
      expect(JSON.parse(jest)).toMatchObject({ numPassedTests: 3, success: true });
    });
  });

  test('types work for ES modules and CommonJS, and know permissions and fields', async () => {
    const compilerOptions = {
      ...{ strict: true, noEmit: true, skipLibCheck: false },
      ...{ module: 'nodenext', target: 'es2022', types: [] },
    };
    const compile = (...files: string[]) => {
      write('tsconfig.json', JSON.stringify({ compilerOptions, files }));
      return project.run(join(root, 'node_modules/.bin/tsc'), '-p', '.');
    };
    write('types.mts', types);
    write('types.cts', types);
    expect(await compile('types.mts', 'types.cts')).toBe('');
    write('wrong.mts', wrongTypes);
    const errors = await compile('wrong.mts').catch((error: Error) => error.message);
    expect(errors.match(/wrong\.mts\(\d+/g)).toEqual(['wrong.mts(4', 'wrong.mts(5']);
  });
});
