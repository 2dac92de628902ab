/** The SDK examples compile with the strictest settings that users have. JavaScript examples are checked, too. */

import { beforeAll, expect, test } from 'bun:test';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/cleanup.ts';
import { installSdk } from '../support/install-sdk.ts';
import { root } from '../support/service.ts';

const guides = readdirSync(join(root, 'docs/guides')).map((name) => `docs/guides/${name}`);
const pages = ['sdk/README.md', 'docs/reference/sdk.md', ...guides];
const fence = /^```(js|ts)\b ?([\w.-]*)[^\n]*\n(.*?)^```$/gms;

/** Code blocks that use the SDK, and the files that these import, by file name. */
const examples = new Map(
  pages.flatMap((page) => {
    const blocks = [...readFileSync(join(root, page), 'utf8').matchAll(fence)];
    // test/sdk/frameworks.slow.test.ts compiles the example for NestJS, which is not installed here.
    const using = blocks.filter(
      ([, , , code = '']) => code.includes('@sallyport/sdk') && !code.includes('@nestjs/'),
    );
    const imported = blocks.filter(
      ([, , name]) => name && using.some(([, , , code = '']) => code.includes(`'./${name}'`)),
    );
    return [
      ...imported.map(([, , name = '', code = '']): [string, string] => [name, code]),
      ...using.map(([, language, , code = ''], index): [string, string] => {
        const extension = language === 'ts' ? 'mts' : 'mjs';
        return [`${page.replaceAll('/', '.').replace('.md', '')}.${index}.${extension}`, code];
      }),
    ];
  }),
);

const compilerOptions = {
  ...{ target: 'ES2022', module: 'nodenext', lib: ['ES2023', 'DOM', 'DOM.Iterable'] },
  ...{ strict: true, allowJs: true, checkJs: true, noEmit: true, skipLibCheck: true },
  ...{ allowImportingTsExtensions: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
  typeRoots: [join(root, 'node_modules/@types')],
  types: ['node'],
  paths: {
    '@sallyport/sdk': [join(root, 'sdk/src/sallyport.ts')],
    '@sallyport/sdk/guard': [join(root, 'sdk/src/guard.ts')],
    '@sallyport/sdk/testing': [join(root, 'sdk/src/testing.ts')],
    '*': [join(root, 'node_modules/@types/*'), join(root, 'node_modules/*')],
  },
};

let folder: string;
beforeAll(() => {
  folder = temporaryFolder();
});

async function errorsIn(
  files: Iterable<readonly [name: string, code: string]>,
  project = folder,
  options: object = compilerOptions,
): Promise<string> {
  const names = [...files].map(([name, code]) => {
    writeFileSync(join(project, name), code);
    return name;
  });
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, files: names }));
  const tsc = Bun.spawn([join(root, 'node_modules/.bin/tsc'), '-p', project], {
    cwd: project,
    stdout: 'pipe',
  });
  return new Response(tsc.stdout).text();
}

test('every example compiles under strict', async () => {
  expect(examples.size).toBeGreaterThanOrEqual(7);
  expect(await errorsIn(examples)).toBe('');
});

test('pages with TypeScript name the type packages that it needs', () => {
  const packages = { node: /\bprocess\.|\bRequest\b|from 'node:/, express: /from 'express'/ };
  const missing = pages.flatMap((page) => {
    const text = readFileSync(join(root, page), 'utf8');
    const code = [...text.matchAll(fence)].filter(([, language]) => language === 'ts').join('\n');
    return Object.entries(packages)
      .filter(([name, uses]) => uses.test(code) && !text.includes(`@types/${name}`))
      .map(([name]) => `${page}: @types/${name}`);
  });
  expect(missing).toEqual([]);
});

test('the types of the built SDK need either @types/node or the DOM library', async () => {
  const project = join(folder, 'project');
  await installSdk(project);
  const page = `import { startSession } from '@sallyport/sdk';
    import { guardFetch } from '@sallyport/sdk/guard';
    export const start = () => startSession({ url: '/', publicKey: 'x', authorize: () => fetch('/session') });
    export const guard = guardFetch;`;
  for (const environment of [
    { lib: ['ES2022'], types: ['node'] },
    { lib: ['ES2022', 'DOM'], types: [] },
  ]) {
    const { typeRoots, module } = compilerOptions;
    const options = { strict: true, noEmit: true, module, typeRoots, ...environment };
    expect(await errorsIn([['page.mts', page]], project, options)).toBe('');
  }
});

test('a wrong example does not compile', async () => {
  const wrong = `import { Sallyport } from '@sallyport/sdk';\nnew Sallyport({ url: 7 });\n`;
  expect(await errorsIn([['wrong.mjs', wrong]])).toContain('wrong.mjs(2');
});
