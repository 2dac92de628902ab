/** Checks the layout of the source: import direction, lengths, and patterns that are not allowed. */
import { describe, expect, test } from 'bun:test';
import {
  arrow,
  consoleSources,
  filesIn,
  found,
  frameSources,
  type Import,
  imports,
  importsOf,
  read,
  sources,
} from './support/source-files.ts';

describe('imports:', () => {
  const outside = (folder: string, allowed: (each: Import) => boolean) =>
    imports
      .filter(({ from, to }) => from.startsWith(folder) && !to.startsWith(folder))
      .filter((each) => !allowed(each))
      .map(arrow);

  test('the domain imports only zod and, for masks, liquidjs', () => {
    const liquid = 'src/domain/mask.ts → liquidjs';
    expect(outside('src/domain/', (each) => each.to === 'zod' || arrow(each) === liquid)).toEqual([]);
  });

  test('the store imports only the domain, the databases and the audit log', () => {
    const allowed = /^(src\/(domain|audit|db)\/|node:|bun$|bun:|zod$)/;
    expect(outside('src/store/', ({ to }) => allowed.test(to))).toEqual([]);
  });

  test('the databases import only the domain', () => {
    const allowed = /^(src\/domain\/|node:|bun$|bun:|zod$)/;
    expect(outside('src/db/', ({ to }) => allowed.test(to))).toEqual([]);
  });

  test('HTTP imports only types from the store, and libraries for OAuth only in its folder', () => {
    const types = [
      'src/store/store.ts',
      'src/outbound/destinations.ts',
      'src/outbound/http-connection.ts',
      'src/telemetry/log.ts',
      'src/telemetry/observe.ts',
    ];
    const values = ['version', 'ip-address', 'sign-in', 'trusted-proxies'].map(
      (name) => `src/config/${name}.ts`,
    );
    const allowed = ({ from, to, typesOnly }: Import) =>
      to.startsWith('src/domain/') ||
      /^(node:|zod$|src\/audit\/trail\.ts$)/.test(to) ||
      values.includes(to) ||
      (from.startsWith('src/http/oauth/') && ['jose', 'openid-client'].includes(to)) ||
      (from === 'src/http/endpoints/console-page.ts' && to === 'console/build.ts') ||
      (from === 'src/http/endpoints/frames.ts' && to === 'frames/build.ts') ||
      (from === 'src/http/endpoints/docs.ts' && to === 'docs/site/build.ts') ||
      (typesOnly && types.includes(to));
    expect(outside('src/http/', allowed)).toEqual([]);
  });

  test('the audit log imports the databases, their keys and settings', () => {
    const allowed = /^(src\/(domain|config|outbound|db)\/|node:|bun$|bun:|zod$|yaml$)/;
    expect(outside('src/audit/', ({ to }) => allowed.test(to))).toEqual([]);
  });

  test('the rest of the source uses only the files at the root of src/audit', () => {
    const inside = imports.filter(
      ({ from, to }) => /^src\/audit\/\w+\//.test(to) && !from.startsWith('src/audit/'),
    );
    expect(inside.map(arrow)).toEqual([]);
  });

  test('only src/audit has SQL about the audit log', () => {
    const tables = /\baudit_(pending|segments|index|chains|deliveries|sinks)\b/;
    expect(found(tables, sources, 'src/audit/')).toEqual([]);
  });

  test('only app.ts and main.ts are at the root of src', () => {
    expect(sources.filter((path) => /^src\/[^/]+$/.test(path))).toEqual(['src/app.ts', 'src/main.ts']);
  });

  test('the folders of src import each other in one direction', () => {
    const folderOf = (path: string) => /^src\/(\w+)\//.exec(path)?.[1];
    const arrows = new Map<string, Set<string>>();
    for (const { from, to } of imports) {
      const [importer, imported] = [folderOf(from), folderOf(to)];
      if (importer === undefined || imported === undefined || importer === imported) continue;
      arrows.set(importer, (arrows.get(importer) ?? new Set()).add(imported));
    }
    // Removes folders whose imports have all been removed. A cycle remains.
    for (let before = -1; before !== arrows.size; ) {
      before = arrows.size;
      for (const [folder, imported] of [...arrows])
        if (![...imported].some((each) => arrows.has(each))) arrows.delete(folder);
    }
    expect([...arrows.keys()]).toEqual([]);
  });

  test('only main imports the CLI, and nothing imports main', () => {
    const upward = imports.filter(
      ({ from, to }) =>
        to === 'src/main.ts' || (to.startsWith('src/cli/') && !/^src\/(cli\/|main)/.test(from)),
    );
    expect(upward.map(arrow)).toEqual([]);
  });

  test('commands that call a running service use only the SDK', () => {
    const remote = sources.filter((path) => /: (readonly )?RemoteCommand\b/.test(read(path)));
    expect(remote.length).toBeGreaterThan(5);
    const forbidden = imports.filter(
      ({ from, to }) => remote.includes(from) && !/^(sdk\/|src\/cli\/|src\/domain\/|node:)/.test(to),
    );
    expect(forbidden.map(arrow)).toEqual([]);
  });

  test('the console imports only the SDK and the domain, and is imported only by the file server', () => {
    const library = /^(react|react-dom\/client|@mantine\/(core|hooks)|zod\/v4\/core)$/;
    const forbidden = consoleSources
      .flatMap(importsOf)
      .filter(
        ({ to }) =>
          !/^(console\/src\/|sdk\/src\/(api|sallyport)\.|src\/domain\/)/.test(to) && !library.test(to),
      );
    expect(consoleSources.length).toBeGreaterThan(10);
    expect(forbidden.map(arrow)).toEqual([]);
    const importers = imports.filter(
      ({ from, to }) => to.startsWith('console/') && from !== 'src/http/endpoints/console-page.ts',
    );
    expect(importers.map(arrow)).toEqual([]);
  });

  test('the frames import only the SDK', () => {
    const forbidden = frameSources
      .flatMap(importsOf)
      .filter(({ to }) => !/^(frames\/src|sdk\/src)\//.test(to));
    expect(frameSources.length).toBeGreaterThan(5);
    expect(forbidden.map(arrow)).toEqual([]);
  });

  test('only the store and authentication return a value or a promise', () => {
    const importers = imports.filter(({ to }) => to === 'src/domain/awaitable.ts').map(({ from }) => from);
    const outsideStore = importers.filter((path) => !/^src\/(db|store)\//.test(path));
    expect(outsideStore).toEqual(['src/http/admit.ts', 'src/http/pipeline/route.ts', 'src/http/turn.ts']);
  });

  test('only the server imports the steps of a request', () => {
    const importers = imports.filter(({ to }) => to === 'src/http/turn.ts');
    expect(importers.map(({ from }) => from)).toEqual(['src/http/server.ts']);
  });

  test('domain, store and HTTP never import operator tools', () => {
    const upward = imports.filter(
      ({ from, to }) => to.startsWith('src/operations/') && /^src\/(domain|db|audit|store|http)\//.test(from),
    );
    expect(upward.map(arrow)).toEqual([]);
  });

  test('the CLI imports nothing from HTTP', () => {
    const direct = imports.filter(
      ({ from, to }) => from.startsWith('src/cli/') && to.startsWith('src/http/'),
    );
    expect(direct.map(arrow)).toEqual([]);
  });

  test('cycles do not exist, also not by type', () => {
    const folders = ['sdk/src', 'demo', 'bench', 'torture', 'test'];
    const everywhere = [
      ...sources,
      ...consoleSources,
      ...frameSources,
      ...folders.flatMap((folder) => filesIn(folder, '.ts')),
    ];
    const next = Map.groupBy(everywhere.flatMap(importsOf), ({ from }) => from);
    const done = new Set<string>();
    const cycles: string[] = [];
    const walk = (path: string, trail: string[]) => {
      if (trail.includes(path)) cycles.push([...trail.slice(trail.indexOf(path)), path].join(' → '));
      if (done.has(path) || trail.includes(path)) return;
      for (const { to } of next.get(path) ?? []) walk(to, [...trail, path]);
      done.add(path);
    };
    for (const path of everywhere) walk(path, []);
    expect(cycles).toEqual([]);
  });

  test('every source file is reachable from main', () => {
    const reached = new Set<string>();
    const walk = (path: string) => {
      if (reached.has(path)) return;
      reached.add(path);
      if (path.endsWith('.ts')) for (const { to } of imports.filter(({ from }) => from === path)) walk(to);
    };
    walk('src/main.ts');
    const files = [...sources, ...filesIn('src', '.sql')];
    expect(files.filter((path) => !reached.has(path))).toEqual([]);
  });
});

describe('lengths:', () => {
  test('source files have at most 500 lines', () => {
    const long = [...sources, ...consoleSources, ...frameSources].filter(
      (path) => read(path).split('\n').length > 501,
    );
    expect(long).toEqual([]);
  });

  /** Folders whose small files are not checked. */
  const unmerged = ['src/audit/'];

  test('a file under 110 lines has several importers, or is an endpoint or a command', () => {
    const registries = ['src/http/routes.ts', 'src/cli/commands.ts'];
    const lengthOf = (path: string) => read(path).split('\n').length - 1;
    const importers = Map.groupBy([...imports, ...consoleSources.flatMap(importsOf)], ({ to }) => to);
    const small = sources.flatMap((path) => {
      const [first, ...others] = new Set(importers.get(path)?.map(({ from }) => from));
      if (first === undefined || others.length > 0 || unmerged.some((folder) => path.startsWith(folder)))
        return [];
      const isEntry = registries.includes(first) || registries.includes(path);
      const [length, merged] = [lengthOf(path), lengthOf(path) + lengthOf(first)];
      return isEntry || length >= 110 || merged > 500 ? [] : [`${path} (${length}) → ${first}`];
    });
    expect(small).toEqual([]);
  });

  /** Finds the end of a function by its indentation, which the formatter makes equal to that of its first line. */
  function functionsIn(path: string): { name: string; length: number }[] {
    const lines = read(path).split('\n');
    return lines.flatMap((line, start) => {
      const opens =
        /^( *)(?!.*\b(?:if|for|while|switch|catch|do|try|else)\b).*(?:=>|\)(?:: [^{]+)?) \{$/.exec(line);
      if (!opens) return [];
      const end = lines.findIndex((other, at) => at > start && other.startsWith(`${opens[1]}}`));
      return [{ name: `${path}: ${line.trim()}`, length: end - start + 1 }];
    });
  }

  test('functions have at most 80 lines', () => {
    const all = sources.flatMap(functionsIn);
    expect(all.length).toBeGreaterThan(300);
    expect(all.filter(({ length }) => length > 80)).toEqual([]);
  });

  test('no file only re-exports', () => {
    expect([...sources, ...filesIn('test', '.ts')].filter((path) => path.endsWith('/index.ts'))).toEqual([]);
    expect(found(/^export \* from|^export \{.*\} from/, sources)).toEqual([]);
  });
});

describe('each side effect is confined to few files:', () => {
  /** Text literals without those in comments, as `path:line: text`. */
  function literalsIn(path: string): string[] {
    const code = read(path).replaceAll(/^ *(?:\/\*\*|\*|\/\/).*$/gm, '');
    const literal = /`(?:[^`\\]|\\.)*`|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g;
    return Array.from(code.matchAll(literal), ({ 0: text, index }) => {
      const line = code.slice(0, index).split('\n').length;
      return `${path}:${line}: ${text.slice(1, -1).replaceAll(/\s+/g, ' ').trim()}`;
    });
  }

  test('SQL', () => {
    const verb =
      /: (?:select .* from |select [\w:.]+\(?|insert into \w|update \w+ set |delete from |(?:alter|create|drop) (?:table|index)|pragma |vacuum |with \w+ as)/i;
    const clause = /\bwhere [\w.]+ (?:=|<>|[<>]=?|in|is) |\border by \w|[=<>] ?\$\d\b/i;
    const sql = (path: string) => literalsIn(path).filter((each) => verb.test(each) || clause.test(each));
    const mayHaveIt = /^src\/(?:db|store|audit)\//;
    expect(sources.filter((path) => mayHaveIt.test(path)).flatMap(sql).length).toBeGreaterThan(200);
    expect(sources.filter((path) => !mayHaveIt.test(path)).flatMap(sql)).toEqual([]);
    const numbered = (path: string) => sql(path).filter((each) => /\$\d/.test(each));
    expect(sources.filter((path) => !path.startsWith('src/db/')).flatMap(numbered)).toEqual([]);
  });

  test('randomness', () => {
    const random = /Math\.random|randomUUID|getRandomValues|randomBytes|randomFill|randomInt/;
    const allowed = [
      'src/domain/key.ts',
      'src/db/keys/cipher.ts',
      'src/audit/log/entry.ts',
      'src/db/keys/keyring.ts',
      'src/db/postgres/postgres-lease.ts',
      'src/db/postgres/postgres-retry.ts',
      'src/db/sqlite/sqlite.ts',
      'src/app.ts',
    ];
    const requestIds = 'src/http/pipeline/request-info.ts';
    expect(found(random, sources, ...allowed, requestIds)).toEqual([]);
  });

  test('the system clock', () => {
    const allowed = ['src/app.ts', 'src/telemetry/log.ts', 'src/store/open.ts', 'src/cli/'];
    expect(found(/Date\.now|new Date\(\)/, sources, ...allowed)).toEqual([]);
  });

  test('cutting texts, which must not end in the middle of a character', () => {
    const cutting = /\.(slice|substring)\(0, (max\w*Length|\d{3,})\)/;
    expect(found(cutting, sources)).toEqual([]);
  });

  test('printing', () => {
    expect(found(/\bconsole\.\w/, sources)).toEqual([]);
    expect(found(/process\.(stdout|stderr)\.write/, sources, 'src/cli/', 'src/telemetry/log.ts')).toEqual([]);
  });

  test('ending the process', () => {
    expect(found(/process\.exit\b/, sources, 'src/cli/')).toEqual([]);
  });
});

describe('not allowed:', () => {
  const torture = filesIn('torture', '.ts');
  const code = [...sources, ...filesIn('test', '.ts'), ...torture].filter(
    (path) => path !== 'test/tidy.test.ts',
  );

  test('TODO comments', () => {
    expect(found(/(\/\/|^ *\/?\*).*\b(TODO|FIXME|XXX|HACK)\b/, code)).toEqual([]);
  });

  test('disabled type or lint checks, and `any`', () => {
    expect(found(/@ts-(ignore|nocheck|expect-error)/, code)).toEqual([]);
    expect(found(/biome-ignore (?!format)/, sources)).toEqual([]);
    expect(found(/(:|\bas|<|\|) ?any\s*([,;)>\]=|&[]|$)/, sources)).toEqual([]);
  });

  /** Files that may use browser storage. See docs/decisions/0028-console.md. */
  const mayStore = [
    'console/src/applications/stored-draft.ts',
    'console/src/frame/kept-key.ts',
    'console/src/frame/sign-in-link.ts',
    'console/src/root.tsx',
  ];

  test('raw HTML, eval and browser storage in the console and the frames', () => {
    const markup =
      /dangerouslySetInnerHTML|\binnerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(/;
    const inBrowsers = [...consoleSources, ...frameSources];
    expect(found(markup, inBrowsers)).toEqual([]);
    const storing = inBrowsers.filter((path) => !mayStore.includes(path));
    expect(found(/localStorage|sessionStorage|indexedDB|document\.cookie|\bcaches\b/, storing)).toEqual([]);
    expect(found(/@ts-|biome-ignore|(:|\bas|<) ?any\b/, inBrowsers)).toEqual([]);
  });

  test('test.only, test.skip and test.todo', () => {
    expect(found(/\b(test|describe|it)\.(only|skip|todo|failing)\b/, code)).toEqual([]);
  });

  test('a timeout of a single test, which a slow machine exceeds', () => {
    expect(found(/^\s*\}, [\d_]+\);$/, filesIn('test', '.test.ts'))).toEqual([]);
  });

  test('skipped tests without a reason', () => {
    const conditions = code.flatMap((path) =>
      Array.from(read(path).matchAll(/\.skipIf\(([^()]*)/g), ([, condition]) => [path, condition as string]),
    );
    const given = code.flatMap((path) =>
      Array.from(
        read(path).matchAll(/const (\w+) = (?:\([^)]*\) =>\s+)?isMissing\(/g),
        ([, name]) => name as string,
      ),
    );
    expect(conditions.length).toBeGreaterThan(0);
    expect(conditions.filter(([, condition]) => !given.includes(condition as string))).toEqual([]);
  });

  test('download addresses in lock files', () => {
    const locks = ['package-lock.json', 'bench/peers/package-lock.json'];
    expect(found(/"resolved": "\w+:/, locks)).toEqual([]);
  });

  test('unused test support files', () => {
    const used = new Set(
      filesIn('test', '.ts')
        .flatMap(importsOf)
        .map(({ to }) => to),
    );
    const entryPoints = [
      'test/run.ts',
      'test/prove.ts',
      'test/support/preload.ts',
      ...filesIn('test/support/end-to-end', '.ts'),
    ];
    const supportFiles = filesIn('test', '.ts').filter((path) => !/\.(test|d)\.ts$/.test(path));
    expect(supportFiles.filter((path) => !used.has(path) && !entryPoints.includes(path))).toEqual([]);
  });

  test('unused or overlong torture files', () => {
    const reached = new Set<string>();
    const walk = (path: string) => {
      if (reached.has(path) || !path.startsWith('torture/')) return;
      reached.add(path);
      for (const { to } of importsOf(path)) walk(to);
    };
    walk('torture/run.ts');
    walk('torture/planted.ts');
    expect(torture.filter((path) => !reached.has(path))).toEqual([]);
    expect(torture.filter((path) => read(path).split('\n').length > 501)).toEqual([]);
  });
});
