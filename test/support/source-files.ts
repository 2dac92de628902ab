/** The source files of the project, their imports, and a search in them. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

const root = join(import.meta.dirname, '../..');

export function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

export function filesIn(folder: string, extension: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(extension))
    .map((name) => join(folder, name))
    .toSorted();
}

export const sources = filesIn('src', '.ts').filter((path) => !path.endsWith('.d.ts'));

export const consoleSources = [...filesIn('console/src', '.ts'), ...filesIn('console/src', '.tsx')];

export const frameSources = filesIn('frames/src', '.ts');

export interface Import {
  readonly from: string;
  /** A path from the root of the project, or the name of a package. */
  readonly to: string;
  readonly typesOnly: boolean;
}

const statement =
  /^(?:import|export)\s+(type\s)?(?:[^'";]*?\sfrom\s+)?'([^']+)'|(?:await|=>) import\('([^']+)'\)/gm;

export function importsOf(from: string): Import[] {
  return Array.from(read(from).matchAll(statement), ([, types, imported, loaded]) => {
    const target = (imported ?? loaded) as string;
    const to = target.startsWith('.') ? normalize(join(dirname(from), target)) : target;
    return { from, to, typesOnly: types !== undefined };
  });
}

export const imports = sources.flatMap(importsOf);
export const arrow = ({ from, to }: Import) => `${from} → ${to}`;

/** Matching lines in `files`, except in paths that start with one of `allowed`. */
export function found(pattern: RegExp, files: readonly string[], ...allowed: string[]): string[] {
  return files
    .filter((path) => !allowed.some((prefix) => path.startsWith(prefix)))
    .flatMap((path) => {
      const lines = read(path).split('\n');
      return lines.filter((line) => pattern.test(line)).map((line) => `${path}: ${line.trim()}`);
    });
}
