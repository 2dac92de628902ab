/** Checks the documentation against the code: links, settings, commands, permissions and error codes exist. */
import { describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { stalePages } from '../docs/generate.ts';
import manifest from '../package.json' with { type: 'json' };
import sdkManifest from '../sdk/package.json' with { type: 'json' };
import { nameOf } from '../src/cli/command.ts';
import { projectVariables } from '../src/cli/commands/init.ts';
import { allCommands } from '../src/cli/commands.ts';
import { callOptions, callVariables } from '../src/cli/terminal/connection.ts';
import { flagOf, readConfig, settingList, settings } from '../src/config/settings.ts';
import { codes } from '../src/domain/error.ts';
import { builtIn } from '../src/domain/permission.ts';

const commands = await allCommands();

const root = join(import.meta.dirname, '..');
const settingFlags = settingList.map(({ variable }) => flagOf(variable));
const paths = [
  ...filesIn('.', /\.md$/, false),
  'test/README.md',
  'test/reader-test.md',
  ...filesIn('docs', /\.md$/),
];

function filesIn(folder: string, pattern: RegExp, recursive = true): string[] {
  return readdirSync(join(root, folder), { recursive, encoding: 'utf8' })
    .filter((name) => pattern.test(name) && !name.includes('node_modules'))
    .map((name) => join(folder, name));
}

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** Every match of the pattern's first group on any page, with the page. */
function mentions(pattern: RegExp, files = paths): { path: string; name: string }[] {
  return files.flatMap((path) =>
    Array.from(read(path).matchAll(pattern), (match) => ({ path, name: match[1] as string })),
  );
}

/** Anchors of the headings of a page, as GitHub generates them. */
function anchors(path: string): string[] {
  return Array.from(read(path).matchAll(/^#+ (.+)$/gm), ([, heading]) =>
    (heading as string)
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

test('the generated pages are up to date', () => {
  expect(stalePages()).toEqual([]);
});

test('documented defaults are valid values', () => {
  const row = /^\| `(\w+)` *\| [^|]+ \| `([^`<]+)` *\|/gm;
  const defaults = Array.from(read('docs/reference/config.md').matchAll(row), ([, variable, value]) => ({
    [variable as string]: value,
  }));
  expect(defaults.length).toBeGreaterThan(12);
  for (const env of defaults) expect(() => readConfig({ env })).not.toThrow();
});

test('every error code is documented, and every documented code exists', () => {
  const documented = Array.from(
    read('docs/reference/errors.md').matchAll(/^## `(\w+)`$/gm),
    ([, code]) => code,
  );
  expect(documented).toEqual(codes);
});

test('every page is in the index', () => {
  const indexed = Array.from(read('docs/README.md').matchAll(/\]\(([\w/-]+\.md)\)/g), ([, path]) =>
    join('docs', path as string),
  );
  const pages = filesIn('docs', /\.md$/).filter(
    (path) => path !== 'docs/README.md' && !/^docs\/decisions\/\d/.test(path),
  );
  expect(pages.filter((path) => !indexed.includes(path))).toEqual([]);
});

test('a decision has at most 500 words', () => {
  const words = (path: string) => read(path).match(/\S*\w\S*/g)?.length ?? 0;
  const long = filesIn('docs/decisions', /\d.*\.md$/).filter((path) => words(path) > 500);
  expect(long).toEqual([]);
});

test('messages, comments and manifests refer to pages that exist', () => {
  const files = ['src', 'sdk', 'console', 'deploy', 'demo', 'bench', 'torture', 'mutation'].flatMap(
    (folder) => filesIn(folder, /\.(ts|tsx|mjs|md|yaml|service|json)$/),
  );
  const named = mentions(/\b(docs\/[\w/-]+\.md)\b/g, files);
  expect(named.length).toBeGreaterThan(4);
  expect(named.filter(({ name }) => !existsSync(join(root, name)))).toEqual([]);
});

describe('the pages mention only existing', () => {
  test('relative links and anchors', () => {
    const links = mentions(/\]\((?!\w+:)([^)\s]+)\)/g);
    const broken = links.filter(({ path, name }) => {
      const [file, anchor] = name.split('#') as [string, string?];
      const target = file === '' ? path : join(dirname(path), file);
      return !existsSync(join(root, target)) || (anchor !== undefined && !anchors(target).includes(anchor));
    });
    expect(links.length).toBeGreaterThan(8);
    expect(broken).toEqual([]);
  });

  test('files of the project', () => {
    const files = mentions(
      /[` ]((?:src|test|docs|bin|sdk|torture|bench|\.ci|(?<=`)deploy)\/[\w./-]*[\w/])(?=[` ])/g,
    );
    expect(files.length).toBeGreaterThan(8);
    expect(files.filter(({ name }) => !existsSync(join(root, name)))).toEqual([]);
  });

  test('settings', () => {
    const read = [...Object.values(settings), ...callVariables].map(({ variable }) => variable);
    const variables: string[] = [...read, ...projectVariables];
    const named = mentions(/\b(SALLYPORT_[A-Z_]+)\b/g, [...paths, ...filesIn('docs/images', /\.svg$/)]);
    expect(named.filter(({ path }) => path.endsWith('.svg')).length).toBeGreaterThan(5);
    expect(named.filter(({ name }) => !variables.includes(name))).toEqual([]);
  });

  test('permissions', () => {
    const families = [...new Set(builtIn.map((name) => name.split(':')[0]))].join('|');
    const named = mentions(new RegExp(`\\b((?:${families}):[a-z]+)\\b`, 'g'));
    expect(named.length).toBeGreaterThan(0);
    // The migration guide and CONTRIBUTING.md show permissions that do not exist.
    const known = [...builtIn, 'token:copy', 'application:pause'];
    expect(named.filter(({ name }) => !known.includes(name))).toEqual([]);
  });

  test('npm scripts', () => {
    const named = mentions(/\bnpm run (\w+(?::\w+)*)/g);
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter(({ name }) => !Object.hasOwn(manifest.scripts, name))).toEqual([]);
  });

  test('commands and options', () => {
    const called = paths.flatMap((path) => commandsOn(path).map((words) => ({ path, words })));
    expect(called.length).toBeGreaterThan(60);
    expect(called.filter(({ words }) => !isCommand(words))).toEqual([]);
  });

  test('valid JSON', () => {
    const blocks = mentions(/^```json\n(.*?)^```$/gms);
    expect(blocks.length).toBeGreaterThan(5);
    for (const { name } of blocks) expect(() => JSON.parse(name)).not.toThrow();
  });
});

describe('the pages quote what the code says:', () => {
  /** Code in the first column of the table with this head. */
  function firstColumn(path: string, head: string): string[] {
    const rows =
      new RegExp(`^\\| ${head} *\\|.*\\n\\|[- :|]+\\n((?:\\|.*\\n)+)`, 'm').exec(read(path))?.[1] ?? '';
    return rows.split('\n').flatMap((row) => (row === '' ? [] : [(row.split('|')[1] as string).trim()]));
  }
  const code = (cell: string) => Array.from(cell.matchAll(/`([^`]+)`/g), ([, text]) => text as string);
  const sources = filesIn('src', /\.ts$/).map(read);

  test('finding codes of audit verify', () => {
    const [, declared = ''] = /type FindingCode =([^;]+);/.exec(read('src/audit/proof/check.ts')) ?? [];
    const findings = Array.from(declared.matchAll(/'(\w+)'/g), ([, name]) => name as string);
    const documented = firstColumn('docs/operations/audit.md', 'code').flatMap(code);
    expect(findings.length).toBeGreaterThan(10);
    expect(documented.toSorted()).toEqual(findings.toSorted());
  });

  test('checks of doctor', () => {
    const files = ['src/operations', 'src/cli/commands'].flatMap((folder) => filesIn(folder, /\.ts$/));
    const texts = files.map(read).filter((text) => /\boperations\/check\.ts|'\.\/check\.ts/.test(text));
    const made = texts.flatMap((text) =>
      Array.from(
        text.matchAll(/(?<!log\.)\b(?:ok|warn|fail)\(\s*'([a-z -]+)'/g),
        ([, name]) => name as string,
      ),
    );
    const documented = firstColumn('docs/operations/monitoring.md', 'check').flatMap((cell) =>
      cell.replace(/:.*/, '').split(', '),
    );
    expect(made.length).toBeGreaterThan(20);
    expect([...new Set(documented)].toSorted()).toEqual([...new Set(made)].toSorted());
  });

  test('lines of the log', () => {
    const literals = sources.flatMap((text) =>
      Array.from(
        text.matchAll(/'([^'\n]+)'|`([^`\n]+)`/g),
        ([, plain, template]) => plain ?? (template as string),
      ),
    );
    const jobs = sources.flatMap((text) =>
      Array.from(text.matchAll(/\bjob\('([^']+)'/g), ([, name]) => `could not ${name}`),
    );
    const placeholder = /\$\{[^}]+\}/;
    const messages = [...literals, ...jobs];
    const quoted = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
    // The first sentence, without a name before it.
    const patterns = messages.flatMap((text) => {
      const fixed = (text.replace(/^\$\{[^}]+\} /, '').split('. ')[0] ?? '').split(placeholder);
      return fixed.join('').length > 12 ? [new RegExp(`^${fixed.map(quoted).join('.+')}$`)] : [];
    });
    const isWritten = (quote: string) => {
      const start = new RegExp(`^${quote.split('…').map(quoted).join('.+')}`);
      return messages.some((text) => start.test(text)) || patterns.some((pattern) => pattern.test(quote));
    };
    const inTable = firstColumn('docs/operations/monitoring.md', 'message').flatMap(code);
    const inText = mentions(/(?:\blog(?: of the node)? has|\b[Ll]ook for|\blogs|`doctor` says) `([^`]+)`/g)
      .map(({ name }) => name)
      .filter((text) => text.includes(' '));
    expect(inTable.length).toBeGreaterThan(10);
    expect(inText.length).toBeGreaterThan(5);
    // SQLite and PostgreSQL write these.
    const others = ['disk I/O error', 'could not extend file … No space left on device'];
    expect([...inTable, ...inText].filter((text) => !others.includes(text) && !isWritten(text))).toEqual([]);
  });

  test('every torture test is on the page about them', () => {
    const rows = filesIn('torture/rows', /\.ts$/).map((path) => /([\w-]+)\.ts$/.exec(path)?.[1] as string);
    expect(rows.filter((name) => !read('docs/security/torture.md').includes(`\`${name}\``))).toEqual([]);
  });

  test('settings of limits', () => {
    const limits = settingList
      .map(({ variable }) => variable)
      .filter((name) => /_PER_|_BURST|_RATE/.test(name));
    const page = read('docs/reference/limits.md');
    expect(limits.length).toBeGreaterThan(8);
    expect(limits.filter((name) => !page.includes(name))).toEqual([]);
  });

  test('exports of the SDK', () => {
    const exported = Object.keys(sdkManifest.exports).filter((name) => name !== './package.json');
    const row =
      read('docs/reference/versioning.md')
        .split('\n')
        .find((line) => line.startsWith('| SDK')) ?? '';
    expect(exported.length).toBeGreaterThan(3);
    expect(exported.filter((name) => !row.includes(`\`@sallyport/sdk${name.slice(1)}\``))).toEqual([]);
  });
});

/** Calls of the CLI in shell blocks and in inline code. */
function commandsOn(path: string): string[][] {
  const text = read(path);
  const blocks = Array.from(text.matchAll(/^```sh\n(.*?)^```$/gms), ([, block]) => block as string);
  const scripts = blocks.map((block) => block.replaceAll('\\\n', ' ')).join('\n');
  const inShell = scripts.matchAll(/(?:^|npx |[|&;(] ?|[A-Z]=\S+ )sallyport ([a-z][^|&;>)\n]*)/gm);
  const inProse = text.matchAll(/`(?:npx )?sallyport ([a-z][^`\n]*)`/g);
  return [...inShell, ...inProse].map(([, words]) => (words as string).trim().split(/\s+/));
}

const generalOptions = ['json', 'help', 'version'];

function isCommand(words: readonly string[]): boolean {
  const given = Array.from(words.join(' ').matchAll(/--([a-z-]+)/g), ([, name]) => name as string);
  const command =
    commands.find((one) => `${words.join(' ')} `.startsWith(`${nameOf(one)} `)) ??
    commands.find((one) => one.isDefault && nameOf(one).split(' ')[0] === words[0]);
  if (!command) return given.includes('help');
  const shared = 'call' in command ? callOptions.map(({ name }) => name) : settingFlags;
  const known = [...generalOptions, ...shared, ...(command.options ?? []).map(({ name }) => name)];
  return given.every((name) => known.includes(name));
}
