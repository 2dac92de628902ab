/** Extracts the SQL that the program sends to PostgreSQL from its source. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Glob } from 'bun';

const source = join(import.meta.dirname, '../../src');
const onlySqlite = /sqlite|commit-watch|file-ownership/;
const looksLikeSql =
  /\b(select|insert into|delete from|update \w+ set|create (unique )?(table|index)|analyze|from|where|and|order by|limit|values|set local|lock table|truncate|for update|for share|for no key update|returning)\b|\(/;

/** One text per file, with the SQL of its string literals. Expressions inside templates are left out. */
export function sqlInSource(): string[] {
  const files = [
    ...new Glob('{store,operations}/**/*.{ts,sql}').scanSync(source),
    ...new Glob('audit/log/*.ts').scanSync(source),
    ...['log.ts', 'proof/export.ts', 'proof/heads.ts', 'proof/retention.ts', 'delivery/positions.ts'].map(
      (path) => `audit/${path}`,
    ),
  ];
  return files
    .filter((path) => !onlySqlite.test(path))
    .map((path) => {
      const text = readFileSync(join(source, path), 'utf8');
      if (path.endsWith('.sql')) return text.replace(/--.*$/gm, '');
      return stringsIn(text)
        .filter((literal) => looksLikeSql.test(literal))
        .join('\n');
    });
}

/** The string literals in TypeScript code, including those inside the expressions of templates. */
function stringsIn(text: string): string[] {
  const found: string[] = [];
  let at = 0;

  function template(): void {
    let content = '';
    for (at++; at < text.length && text[at] !== '`'; at++) {
      if (text.startsWith('${', at)) {
        at += 2;
        code('}');
        content += ' ';
      } else content += text[at] === '\\' ? text[++at] : text[at];
    }
    found.push(content);
  }

  function quoted(quote: string): void {
    let content = '';
    for (at++; at < text.length && text[at] !== quote; at++)
      content += text[at] === '\\' ? text[++at] : text[at];
    found.push(content);
  }

  function code(end: string | undefined): void {
    for (let depth = 0; at < text.length; at++) {
      const character = text[at] as string;
      if (text.startsWith('//', at)) at = endOf('\n');
      else if (text.startsWith('/*', at)) at = endOf('*/') + 1;
      else if (character === '`') template();
      else if (character === "'" || character === '"') quoted(character);
      else if (character === '/' && /[(=,:!&|?]\s*$/.test(text.slice(Math.max(0, at - 8), at))) skipRegex();
      else if (character === '{') depth++;
      else if (character === end && depth-- === 0) return;
    }
  }

  function endOf(mark: string): number {
    const end = text.indexOf(mark, at);
    return end < 0 ? text.length : end;
  }

  function skipRegex(): void {
    for (at++; at < text.length && text[at] !== '/'; at++) if (text[at] === '\\') at++;
  }

  code(undefined);
  return found;
}
