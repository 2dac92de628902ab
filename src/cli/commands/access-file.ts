/** Reads the file of `sallyport apply`: the applications of a tenant, as YAML or JSON. */
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { z } from 'zod';
import { ApplicationCreate, originErrors } from '../../domain/application.ts';
import { grantErrors } from '../../domain/grant.ts';
import { check, type Fault } from '../../domain/validate.ts';
import { UsageError } from '../errors.ts';

const AccessFile = z.strictObject({ applications: z.array(ApplicationCreate) });

/** An application in the file, with its line. */
export interface Wanted {
  readonly application: ApplicationCreate;
  readonly line: number;
}

/** Throws one UsageError with all problems and their lines. `name` is the file name in its messages. */
export function readAccessFile(text: string, name: string): Wanted[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const syntaxErrors = [...document.errors, ...document.warnings];
  reportProblems(
    name,
    syntaxErrors.map(({ pos, message }) => ({ line: lines.linePos(pos[0]).line, message })),
  );
  const value = toValue(document, name);
  const lineOf = (path: readonly PropertyKey[]) => lines.linePos(offsetOf(document, path)).line;
  const checked = check(AccessFile, value);
  const faults = 'faults' in checked ? checked.faults : findFaults(checked.data.applications);
  reportProblems(
    name,
    faults.map((fault) => ({ line: lineOf(fault.path), message: formatFault(fault, value) })),
  );
  const { applications } = (checked as { data: z.output<typeof AccessFile> }).data;
  return applications.map((application, index) => ({ application, line: lineOf(['applications', index]) }));
}

interface Problem {
  readonly line: number;
  readonly message: string;
}

const hint = 'no application was changed; correct the file and run the command again';

export function reportProblems(name: string, problems: readonly Problem[]): void {
  if (problems.length === 0) return;
  const sorted = problems.toSorted((a, b) => a.line - b.line);
  throw new UsageError(sorted.map(({ line, message }) => `${name}:${line}: ${message}`).join('\n'), hint);
}

/** Rejects excessive aliases and values that JSON cannot represent. */
function toValue(document: Document, name: string): unknown {
  try {
    return document.toJS();
  } catch (error) {
    throw new UsageError(`${name}: ${(error as Error).message}`, hint);
  }
}

/** Problems that the schema cannot find: duplicate names, and grants or origins that the type does not allow. */
function findFaults(applications: readonly ApplicationCreate[]): Fault[] {
  const names = new Set<string>();
  return applications.flatMap((application, index) => {
    const at = ['applications', index];
    const isDuplicate = names.has(application.name);
    names.add(application.name);
    const { type, allowed_origins } = application;
    const errors = { ...grantErrors(type, application), ...originErrors(type, allowed_origins) };
    const grants = Object.entries(errors).flatMap(([path, sentences]) =>
      sentences.map((message) => ({ path: [...at, ...path.split('.')], message })),
    );
    return isDuplicate
      ? [{ path: [...at, 'name'], message: 'is already used by an application above' }, ...grants]
      : grants;
  });
}

/** Names the application by its `name` if it has one. */
function formatFault({ path, message }: Fault, value: unknown): string {
  const [list, index, ...rest] = path;
  if (list !== 'applications' || typeof index !== 'number')
    return `${path.join('.') || 'the file'} ${message}`;
  const { name } = ((value as { applications: unknown[] }).applications[index] ?? {}) as { name?: unknown };
  const label = typeof name === 'string' ? `"${name}"` : `applications.${index}`;
  return rest.length > 0 ? `${label}: ${rest.join('.')} ${message}` : `${label} ${message}`;
}

/** The offset of the value in the text, or of its parent if the value is missing. */
function offsetOf(document: Document, path: readonly PropertyKey[]): number {
  let node: unknown = document.contents;
  let offset = startOf(node) ?? 0;
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(document);
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step));
      offset = startOf(pair?.key) ?? offset;
      node = pair?.value;
    } else if (isSeq(node)) {
      node = node.items[Number(step)];
      offset = startOf(node) ?? offset;
    } else break;
  }
  return offset;
}

function startOf(node: unknown): number | undefined {
  return (node as Node | undefined)?.range?.[0];
}
