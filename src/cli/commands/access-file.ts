/** A file that says which Applications a tenant has: YAML, and so JSON too. */
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { z } from 'zod';
import { ApplicationCreate } from '../../domain/application.ts';
import { grantErrors } from '../../domain/grant.ts';
import { originErrors } from '../../domain/origin.ts';
import { check, type Fault } from '../../domain/validate.ts';
import { UsageError } from '../errors.ts';

const Access = z.strictObject({ applications: z.array(ApplicationCreate) });

/** An Application as the file has it, and where. */
export interface Wanted {
  readonly application: ApplicationCreate;
  readonly line: number;
}

/** `name` is what complaints call the file. All that is wrong is said at once, each with its line. */
export function readAccess(text: string, name: string): Wanted[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const slips = [...document.errors, ...document.warnings];
  complain(
    name,
    slips.map(({ pos, message }) => ({ line: lines.linePos(pos[0]).line, message })),
  );
  const value = valueIn(document, name);
  const lineOf = (path: readonly PropertyKey[]) => lines.linePos(placeOf(document, path)).line;
  const checked = check(Access, value);
  const faults = 'faults' in checked ? checked.faults : faultsOf(checked.data.applications);
  complain(
    name,
    faults.map((fault) => ({ line: lineOf(fault.path), message: inWords(fault, value) })),
  );
  const { applications } = (checked as { data: z.output<typeof Access> }).data;
  return applications.map((application, index) => ({ application, line: lineOf(['applications', index]) }));
}

interface Complaint {
  readonly line: number;
  readonly message: string;
}

export function complain(name: string, complaints: readonly Complaint[]): void {
  if (complaints.length === 0) return;
  const sorted = complaints.toSorted((a, b) => a.line - b.line);
  throw new UsageError(
    sorted.map(({ line, message }) => `${name}:${line}: ${message}`).join('\n'),
    'nothing was changed',
  );
}

/** Too many aliases of aliases, and what cannot be JSON, is found when the document is made into a value. */
function valueIn(document: Document, name: string): unknown {
  try {
    return document.toJS();
  } catch (error) {
    throw new UsageError(`${name}: ${(error as Error).message}`, 'nothing was changed');
  }
}

/** What no schema of a single Application can see. */
function faultsOf(applications: readonly ApplicationCreate[]): Fault[] {
  const names = new Set<string>();
  return applications.flatMap((application, index) => {
    const at = ['applications', index];
    const twice = names.has(application.name);
    names.add(application.name);
    const { type, allowed_origins } = application;
    const errors = { ...grantErrors(type, application), ...originErrors(type, allowed_origins) };
    const grants = Object.entries(errors).flatMap(([path, sentences]) =>
      sentences.map((message) => ({ path: [...at, ...path.split('.')], message })),
    );
    return twice
      ? [{ path: [...at, 'name'], message: 'is the name of another one above' }, ...grants]
      : grants;
  });
}

/** Speaks of an Application by its name where it has one. */
function inWords({ path, message }: Fault, value: unknown): string {
  const [list, index, ...rest] = path;
  if (list !== 'applications' || typeof index !== 'number')
    return `${path.join('.') || 'the file'} ${message}`;
  const { name } = ((value as { applications: unknown[] }).applications[index] ?? {}) as { name?: unknown };
  const who = typeof name === 'string' ? `"${name}"` : `applications.${index}`;
  return rest.length > 0 ? `${who}: ${rest.join('.')} ${message}` : `${who} ${message}`;
}

/** Where in the text something is, or, if it is missing, what it is missing from. */
function placeOf(document: Document, path: readonly PropertyKey[]): number {
  let node: unknown = document.contents;
  let place = startOf(node) ?? 0;
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(document);
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step));
      place = startOf(pair?.key) ?? place;
      node = pair?.value;
    } else if (isSeq(node)) {
      node = node.items[Number(step)];
      place = startOf(node) ?? place;
    } else break;
  }
  return place;
}

function startOf(node: unknown): number | undefined {
  return (node as Node | undefined)?.range?.[0];
}
