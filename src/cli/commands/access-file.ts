/**
 * Reads and writes the file of `sallyport apply`: applications and destinations, as YAML or JSON. Commands import this
 * only when they run, because the YAML library takes time to load.
 */
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  stringify,
} from 'yaml';
import { z } from 'zod';
import type { Application, Destination } from '../../../sdk/src/sallyport.ts';
import {
  ApplicationCreate,
  accessErrors,
  ExpiryChange,
  never,
  schemasFor,
} from '../../domain/application.ts';
import { Name, optional, optionalList } from '../../domain/common-fields.ts';
import { DestinationCreate } from '../../domain/destination.ts';
import { Labels, maxLabels } from '../../domain/labels.ts';
import { builtIn, Permission } from '../../domain/permission.ts';
import { maxRules, Rule } from '../../domain/rule.ts';
import { check, type Fault } from '../../domain/validate.ts';
import { UsageError } from '../errors.ts';

const FileApplication = ApplicationCreate.extend({
  rules: optionalList(z.array(Rule).max(maxRules)).describe(
    ApplicationCreate.shape.rules.description as string,
  ),
  ...schemasFor('update'),
  labels: optional(Labels).describe(
    'Labels of the application, which replace those of the file with the same name. If neither has labels, they are not changed; if both are empty, they are removed.',
  ),
  previous_name: optional(Name).describe(
    'The name before a rename. If no application has the new name, the one with this name is renamed and its keys stay valid.',
  ),
  expires_at: optional(ExpiryChange).describe(
    'When the application expires. Must be in the future. `never` removes the expiry; if absent, it is not changed.',
  ),
}).meta({ id: 'Application' });
export type FileApplication = z.infer<typeof FileApplication>;

/** Secrets are not in the file, which belongs in a repository. */
const SecretSource = z
  .strictObject({ env: optional(z.string().min(1)), file: optional(z.string().min(1)) })
  .refine(({ env, file }) => (env === undefined) !== (file === undefined), 'must have either env or file');

const FileDestination = DestinationCreate.extend({
  headers: optional(z.record(z.string().toLowerCase(), SecretSource)).describe(
    'Headers that are added to every request. Each value is `env: VARIABLE` or `file: PATH`, where the secret is. They are sent to a new destination, and if the names of the headers differ. If absent, the headers are not changed.',
  ),
  client_certificate: optional(SecretSource).describe(
    'Where the client certificate and its private key are, in PEM: `env: VARIABLE` or `file: PATH`. Sent to a destination that has none.',
  ),
}).meta({ id: 'Destination' });
export type FileDestination = z.infer<typeof FileDestination>;

const AccessFile = z.strictObject({
  labels: optional(Labels).describe(
    'Labels of every application in the file. With them, `--prune` deletes only applications that have all of them.',
  ),
  destinations: optionalList(z.array(FileDestination)).describe(
    'Destinations, in any order. Others are neither changed nor deleted.',
  ),
  applications: z.array(FileApplication).describe('The applications of the tenant, in any order.'),
});

const dateTime = '\\d{4}-\\d\\d-\\d\\dT.+';

/** The JSON schema of the file, for editors. Draft 7, because editors support it best. */
export function accessFileSchema(): object {
  const schema = z.toJSONSchema(AccessFile, {
    target: 'draft-7',
    io: 'input',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      if (zodSchema === Permission) suggestPermissions(jsonSchema);
      if (zodSchema === ExpiryChange) jsonSchema.pattern = `^(${never}|${dateTime})$`;
      // Not every editor knows formats.
      if (jsonSchema.format === 'date-time') {
        delete jsonSchema.format;
        jsonSchema.pattern = `^${dateTime}$`;
      }
      // Rules of applications have no conditions.
      if (zodSchema === Rule) delete jsonSchema.properties?.conditions;
    },
  });
  return { ...schema, title: 'Sallyport access file' };
}

/** Lists the built-in permissions, so that editors complete them and mark unknown ones. */
function suggestPermissions(schema: z.core.JSONSchema.BaseSchema): void {
  const families = [...new Set(builtIn.map((name) => name.split(':')[0]))];
  const { pattern, maxLength } = schema;
  delete schema.pattern;
  delete schema.maxLength;
  schema.anyOf = [
    { enum: [...builtIn] },
    { maxLength, pattern: pattern?.replace('^', `^(?!(${families.join('|')}):)`) } as typeof schema,
  ];
}

/** An application in a file, with its labels and those of the file. */
export interface Wanted {
  readonly application: FileApplication;
  /** The name of the file in messages. */
  readonly file: string;
  readonly line: number;
}

export interface ReadFile {
  readonly file: string;
  /** The labels of the file. */
  readonly labels: Labels | undefined;
  readonly wanted: readonly Wanted[];
  readonly destinations: readonly FileDestination[];
}

/** Throws one UsageError with all problems and their lines. `file` is the file name in its messages. */
export function readAccessFile(text: string, file: string): ReadFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const syntaxErrors = [...document.errors, ...document.warnings];
  reportProblems(
    syntaxErrors.map(({ pos, message }) => ({ file, line: lines.linePos(pos[0]).line, message })),
  );
  const value = toValue(document, file);
  const lineOf = (path: readonly PropertyKey[]) => lines.linePos(offsetOf(document, path)).line;
  const checked = check(AccessFile, value);
  const data = 'data' in checked ? withFileLabels(checked.data) : undefined;
  const faults = 'faults' in checked ? checked.faults : findFaults(data?.applications ?? []);
  const problems = faults.map((fault) => ({
    file,
    line: lineOf(fault.path),
    message: formatFault(fault, value),
  }));
  reportProblems(problems.sort((a, b) => a.line - b.line));
  const { labels, applications = [], destinations = [] } = data ?? {};
  const wanted = applications.map((application, index) => ({
    application,
    file,
    line: lineOf(['applications', index]),
  }));
  return { file, labels, wanted, destinations };
}

type FileData = z.output<typeof AccessFile>;

function withFileLabels({ labels, applications, ...rest }: FileData): FileData {
  if (!labels) return { ...rest, labels, applications };
  const labelled = applications.map((one) => ({ ...one, labels: { ...labels, ...one.labels } }));
  return { ...rest, labels, applications: labelled };
}

/** Finds names and previous names that are used twice, also if the same file was given twice. */
export function findSharedNames(files: readonly ReadFile[]): Problem[] {
  const uses = new Map<string, Wanted>();
  return files.flatMap(({ wanted }) =>
    wanted.flatMap((one) => {
      const { name, previous_name = name } = one.application;
      const taken = [...new Set([name, previous_name])].flatMap((each) => {
        const other = uses.get(each);
        if (!other) uses.set(each, one);
        return other ? [`"${each}" is also in ${other.file}:${other.line}`] : [];
      });
      return taken.map((message) => ({ file: one.file, line: one.line, message }));
    }),
  );
}

/**
 * Returns the text of a file with these applications, which all have the labels of the file. Throws UsageError if `apply` would reject it, for example
 * because a name is no longer valid.
 */
export function formatAccessFile(
  current: readonly Application[],
  asJson: boolean,
  labels: Labels = {},
  existing: readonly Destination[] = [],
): string {
  const applications = current.map((application) => {
    const own = Object.entries(application.labels ?? {}).filter(([name, value]) => labels[name] !== value);
    return writtenFields({ ...application, labels: Object.fromEntries(own) }, FileApplication.shape);
  });
  const variables = new Set<string>();
  const destinations = existing.map((each) => fileDestination(each, variables));
  const content = { ...writtenFields({ labels, destinations }, AccessFile.shape), applications };
  const text = asJson ? `${JSON.stringify(content, undefined, 2)}\n` : stringify(content, { lineWidth: 0 });
  readAccessFile(text, 'the applications as YAML');
  return text;
}

/** The fields that the file has, without empty lists. */
function writtenFields(from: object, shape: object) {
  return Object.fromEntries(
    Object.entries(from).filter(([field, value]) => Object.hasOwn(shape, field) && !isEmptyList(value)),
  );
}

/**
 * The service returns no secrets, so the file names the variables that `apply` reads them from. `variables` are those of
 * other destinations: names that differ only in punctuation get a number.
 */
function fileDestination(destination: Destination, variables: Set<string>) {
  const { name, header_names, client_certificate, requests } = destination;
  const source = (what: string) => {
    const first = `DESTINATION_${name}_${what}`.replace(/[^a-z0-9]/gi, '_').toUpperCase();
    let env = first;
    for (let number = 2; variables.has(env); number++) env = `${first}_${number}`;
    variables.add(env);
    return { env };
  };
  const secrets = {
    headers: Object.fromEntries(header_names.map((header) => [header, source(header)])),
    ...(client_certificate !== undefined && { client_certificate: source('client_certificate') }),
    requests: requests.map((request) => writtenFields(request, request)),
  };
  return writtenFields({ ...destination, ...secrets }, FileDestination.shape);
}

function isEmptyList(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

interface Problem {
  readonly file: string;
  readonly line: number;
  readonly message: string;
}

const hint = 'no change was made; correct the file and run the command again';

export function reportProblems(problems: readonly Problem[]): void {
  if (problems.length === 0) return;
  const text = problems.map(({ file, line, message }) => `${file}:${line}: ${message}`).join('\n');
  throw new UsageError(text, hint);
}

/** Throws UsageError if the document cannot be converted to values, for example because of excessive aliases. */
function toValue(document: Document, name: string): unknown {
  try {
    return document.toJS();
  } catch (error) {
    throw new UsageError(`${name}: ${(error as Error).message}`, hint);
  }
}

/**
 * Finds faults that the schema cannot: duplicate names; grants, origins or networks that the type does not allow; too
 * many labels together with those of the file.
 */
function findFaults(applications: readonly FileApplication[]): Fault[] {
  const names = new Set<string>();
  const allNames = applications.flatMap(({ name, previous_name = [] }) => [name, previous_name].flat());
  return applications.flatMap((application, index) => {
    const at = ['applications', index];
    const isDuplicate = names.has(application.name);
    names.add(application.name);
    const { type, previous_name } = application;
    if (previous_name !== undefined && allNames.filter((name) => name === previous_name).length > 1)
      return [{ path: [...at, 'previous_name'], message: 'is also a name elsewhere in the file' }];
    const tooMany = Object.keys(application.labels ?? {}).length > maxLabels;
    const errors = {
      ...(tooMany && { labels: [`must have at most ${maxLabels} entries together with those of the file`] }),
      ...accessErrors(type, application),
    };
    const grants = Object.entries(errors).flatMap(([path, sentences]) =>
      sentences.map((message) => ({ path: [...at, ...path.split('.')], message })),
    );
    return isDuplicate
      ? [{ path: [...at, 'name'], message: 'is already used by an application above' }, ...grants]
      : grants;
  });
}

/** The message names the application or destination by its `name` if it has one. */
function formatFault({ path, message }: Fault, value: unknown): string {
  const [list, index, ...rest] = path;
  if ((list !== 'applications' && list !== 'destinations') || typeof index !== 'number')
    return `${path.join('.') || 'the file'} ${message}`;
  const { name } = ((value as Record<string, unknown[]>)[list]?.[index] ?? {}) as { name?: unknown };
  const label = typeof name === 'string' ? `"${name}"` : `${list}.${index}`;
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
