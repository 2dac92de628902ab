/** Holds the source to its layout: what may import what, how long things get, and what has no place here. */
import { describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

const root = join(import.meta.dirname, '..');

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

function filesIn(folder: string, ending: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name))
    .toSorted();
}

const sources = filesIn('src', '.ts').filter((path) => !path.endsWith('.d.ts'));

const consoleSources = [...filesIn('console/src', '.ts'), ...filesIn('console/src', '.tsx')];

interface Import {
  readonly from: string;
  /** A path from the root, or the name of a package. */
  readonly to: string;
  readonly typesOnly: boolean;
}

const statement = /^(?:import|export)\s+(type\s)?(?:[^'";]*?\sfrom\s+)?'([^']+)'/gm;

function importsOf(from: string): Import[] {
  return Array.from(read(from).matchAll(statement), ([, types, target]) => ({
    from,
    to: (target as string).startsWith('.')
      ? normalize(join(dirname(from), target as string))
      : (target as string),
    typesOnly: types !== undefined,
  }));
}

const imports = sources.flatMap(importsOf);
const shown = ({ from, to }: Import) => `${from} → ${to}`;

/** The lines of every file that match, but for those of the files where they belong. */
function found(pattern: RegExp, where: readonly string[], ...allowed: string[]): string[] {
  return where
    .filter((path) => !allowed.some((place) => path.startsWith(place)))
    .flatMap((path) => {
      const lines = read(path).split('\n');
      return lines.filter((line) => pattern.test(line)).map((line) => `${path}: ${line.trim()}`);
    });
}

describe('imports point one way:', () => {
  const outside = (folder: string, allowed: (each: Import) => boolean) =>
    imports
      .filter(({ from, to }) => from.startsWith(folder) && !to.startsWith(folder))
      .filter((each) => !allowed(each))
      .map(shown);

  test('the domain needs nothing but itself and its schemas', () => {
    const liquid = 'src/domain/mask.ts → liquidjs';
    expect(outside('src/domain/', (each) => each.to === 'zod' || shown(each) === liquid)).toEqual([]);
  });

  test('the store knows the domain, and nothing above itself', () => {
    const library = /^(node:|bun$|bun:|zod$)/;
    expect(outside('src/store/', ({ to }) => to.startsWith('src/domain/') || library.test(to))).toEqual([]);
  });

  test('HTTP knows the store by its types alone', () => {
    const types = ['src/store/store.ts', 'src/log.ts', 'src/observe.ts'];
    const allowed = ({ from, to, typesOnly }: Import) =>
      to.startsWith('src/domain/') ||
      /^(node:|zod$)/.test(to) ||
      to === 'src/version.ts' ||
      (from === 'src/http/endpoints/console-files.ts' && to === 'console/build.ts') ||
      (typesOnly && types.includes(to));
    expect(outside('src/http/', allowed)).toEqual([]);
  });

  test('only the command line is above the program, and nothing is above main', () => {
    const upward = imports.filter(
      ({ from, to }) =>
        to === 'src/main.ts' || (to.startsWith('src/cli/') && !/^src\/(cli\/|main)/.test(from)),
    );
    expect(upward.map(shown)).toEqual([]);
  });

  test('commands that call a service reach it through the SDK alone', () => {
    const remote = sources.filter((path) => /: readonly RemoteCommand\[\]/.test(read(path)));
    expect(remote.length).toBeGreaterThan(5);
    const strange = imports.filter(
      ({ from, to }) => remote.includes(from) && !/^(sdk\/|src\/cli\/|src\/domain\/|node:)/.test(to),
    );
    expect(strange.map(shown)).toEqual([]);
  });

  test('the console knows the service by the SDK alone, and shares nothing with it but the rules', () => {
    const library = /^(react|react-dom\/client|@mantine\/(core|hooks)|zod)$/;
    const strange = consoleSources
      .flatMap(importsOf)
      .filter(
        ({ to }) => !/^(console\/src\/|sdk\/src\/sallyport|src\/domain\/)/.test(to) && !library.test(to),
      );
    expect(consoleSources.length).toBeGreaterThan(10);
    expect(strange.map(shown)).toEqual([]);
    const asking = imports.filter(
      ({ from, to }) => to.startsWith('console/') && from !== 'src/http/endpoints/console-files.ts',
    );
    expect(asking.map(shown)).toEqual([]);
  });

  test('operator tools use the store, never the reverse', () => {
    const upward = imports.filter(
      ({ from, to }) => to.startsWith('src/operations/') && /^src\/(domain|store|http)\//.test(from),
    );
    expect(upward.map(shown)).toEqual([]);
  });

  test('the command line imports nothing from HTTP', () => {
    const direct = imports.filter(
      ({ from, to }) => from.startsWith('src/cli/') && to.startsWith('src/http/'),
    );
    expect(direct.map(shown)).toEqual([]);
  });

  test('never in a cycle, types included', () => {
    const next = Map.groupBy(imports, ({ from }) => from);
    const done = new Set<string>();
    const circles: string[] = [];
    const walk = (path: string, trail: string[]) => {
      if (trail.includes(path)) circles.push([...trail.slice(trail.indexOf(path)), path].join(' → '));
      if (done.has(path) || trail.includes(path)) return;
      for (const { to } of next.get(path) ?? []) walk(to, [...trail, path]);
      done.add(path);
    };
    for (const path of sources) walk(path, []);
    expect(circles).toEqual([]);
  });

  test('to every file of the source, from main', () => {
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

describe('things stay small:', () => {
  test('no file of the source has more than 300 lines, but for the list of promises', () => {
    const long = [...sources, ...consoleSources].filter((path) => read(path).split('\n').length > 301);
    expect(long.filter((path) => path !== 'src/store/store.ts')).toEqual([]);
  });

  /** Formatted code ends a block at the indentation of its first line. */
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

  test('no function has more than 80 lines', () => {
    const all = sources.flatMap(functionsIn);
    expect(all.length).toBeGreaterThan(300);
    expect(all.filter(({ length }) => length > 80)).toEqual([]);
  });

  test('no file only passes on what others export', () => {
    expect([...sources, ...filesIn('test', '.ts')].filter((path) => path.endsWith('/index.ts'))).toEqual([]);
    expect(found(/^export \* from|^export \{.*\} from/, sources)).toEqual([]);
  });
});

describe('what decides comes from one place:', () => {
  test('chance', () => {
    const chance = /Math\.random|randomUUID|getRandomValues|randomBytes|randomFill|randomInt/;
    const places = [
      'src/domain/key.ts',
      'src/store/crypto/cipher.ts',
      'src/store/audit/hash-chain.ts',
      'src/store/crypto/keyring.ts',
    ];
    const requestIds = 'src/http/pipeline/request-info.ts';
    expect(found(chance, sources, ...places, requestIds)).toEqual([]);
  });

  test('the time of day', () => {
    const places = ['src/app.ts', 'src/log.ts', 'src/store/open.ts', 'src/cli/'];
    expect(found(/Date\.now|new Date\(\)/, sources, ...places)).toEqual([]);
  });

  test('what is printed', () => {
    expect(found(/\bconsole\.\w/, sources)).toEqual([]);
    expect(found(/process\.(stdout|stderr)\.write/, sources, 'src/cli/', 'src/log.ts')).toEqual([]);
  });

  test('how the process ends', () => {
    expect(found(/process\.exit\b/, sources, 'src/cli/')).toEqual([]);
  });
});

describe('nothing is left over:', () => {
  const torture = filesIn('torture', '.ts');
  const code = [...sources, ...filesIn('test', '.ts'), ...torture].filter(
    (path) => path !== 'test/tidy.test.ts',
  );

  test('no note to oneself', () => {
    expect(found(/(\/\/|^ *\/?\*).*\b(TODO|FIXME|XXX|HACK)\b/, code)).toEqual([]);
  });

  test('no check that is switched off', () => {
    expect(found(/@ts-(ignore|nocheck|expect-error)/, code)).toEqual([]);
    expect(found(/biome-ignore (?!format)/, sources)).toEqual([]);
    expect(found(/(:|\bas|<|\|) ?any\s*([,;)>\]=|&[]|$)/, sources)).toEqual([]);
  });

  test('nothing in the console that turns text into markup or code, or keeps anything', () => {
    const markup =
      /dangerouslySetInnerHTML|\binnerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(/;
    expect(found(markup, consoleSources)).toEqual([]);
    expect(
      found(/localStorage|sessionStorage|indexedDB|document\.cookie|\bcaches\b/, consoleSources),
    ).toEqual([]);
    expect(found(/@ts-|biome-ignore|(:|\bas|<) ?any\b/, consoleSources)).toEqual([]);
  });

  test('no test that does not run, or alone', () => {
    expect(found(/\b(test|describe|it)\.(only|skip|todo|failing)\b/, code)).toEqual([]);
  });

  test('no skipped test without a reason', () => {
    const conditions = code.flatMap((path) =>
      Array.from(read(path).matchAll(/\.skipIf\(([^)]*)\)/g), ([, condition]) => [path, condition as string]),
    );
    const given = code.flatMap((path) =>
      Array.from(read(path).matchAll(/const (\w+) = isMissing\(/g), ([, name]) => name as string),
    );
    expect(conditions.length).toBeGreaterThan(0);
    expect(conditions.filter(([, condition]) => !given.includes(condition as string))).toEqual([]);
  });

  test('no address of a registry in the lock files', () => {
    const locks = ['package-lock.json', 'bench/peers/package-lock.json'];
    expect(found(/"resolved": "\w+:/, locks)).toEqual([]);
  });

  test('no helper of the tests that none of them uses', () => {
    const used = new Set(
      filesIn('test', '.ts')
        .flatMap(importsOf)
        .map(({ to }) => to),
    );
    const started = [
      'test/run.ts',
      'test/prove.ts',
      'test/support/preload.ts',
      ...filesIn('test/support/story', '.ts'),
    ];
    const helpers = filesIn('test', '.ts').filter((path) => !/\.(test|d)\.ts$/.test(path));
    expect(helpers.filter((path) => !used.has(path) && !started.includes(path))).toEqual([]);
  });

  test('no file of the torture run that nothing starts, and none that is too long', () => {
    const reached = new Set<string>();
    const walk = (path: string) => {
      if (reached.has(path) || !path.startsWith('torture/')) return;
      reached.add(path);
      for (const { to } of importsOf(path)) walk(to);
    };
    walk('torture/run.ts');
    walk('torture/planted.ts');
    expect(torture.filter((path) => !reached.has(path))).toEqual([]);
    expect(torture.filter((path) => read(path).split('\n').length > 301)).toEqual([]);
  });
});
