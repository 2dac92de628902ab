/** Shared by `logs tail` and `audit tail`: options, the line of an entry, and polling. */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { ConnectionError, RateLimitError, UnavailableError } from '../../../sdk/src/sallyport.ts';
import { type Difference, type LogEntry, personName, readsOperation, results } from '../../domain/audit.ts';
import { Failure } from '../../domain/error.ts';
import { escapeText } from '../../domain/escape.ts';
import { Transform } from '../../domain/rule.ts';
import { type Context, type Option, type Options, option } from '../command.ts';
import { type ErrorContext, toCliError } from './cli-error.ts';
import { untilSignal } from './signals.ts';
import type { Terminal } from './terminal.ts';

/** The options are named like the filters of the API, with - instead of _. */
export const filterOptions: readonly Option[] = [
  option('token ID', 'Filter by token.'),
  option('container PATH', 'Filter by container, including those below it.'),
  option('actor ID', 'Filter by application, including its sessions, or by session.'),
  option('entity ID', 'Filter by the id of the changed object.'),
  option('operation NAME', 'Filter by operation, such as application.update.'),
  option('result RESULT', 'Filter by result.', results),
  option('transform TRANSFORM', 'Filter by the transform with which data was returned.', Transform.options),
  option('request-id ID', 'Filter by the id of the request.'),
  option('subject SUBJECT', 'Filter by who the session is for, such as user:42.'),
  option('purpose TEXT', 'Filter by purpose, exactly as stated.'),
  option('destination ID', 'Filter by the destination where tokens were used.'),
  option(
    'person PERSON',
    'Filter by the person who signed in to the console: their subject or email address.',
  ),
  option('changes', 'Only successful changes.'),
  option('from TIME', 'Only entries at or after this time, such as 2030-01-31T12:00:00Z.'),
  option('to TIME', 'Only entries before this time.'),
];

/** The value for the API. That of an option without a value, such as `--changes`, is `true`. */
export function filterValue(options: Options, name: string): string | undefined {
  return options.on(name) ? 'true' : options.value(name);
}

export const tailOptions: readonly Option[] = [
  option('follow', 'Print new entries until interrupted. Retries if the connection is lost.'),
  option('lines NUMBER', 'Number of entries to print first. Default: 20.'),
  ...filterOptions,
];

export const lines = z
  .string()
  .regex(/^[1-9]\d{0,5}$/, 'must be a whole number from 1 to 999999')
  .default('20')
  .transform(Number);

/** A hint, because the log accepts every name. */
export function noSuchOperation(operation: string): string {
  return `no entry has the operation "${operation}"; operations have names such as application.update`;
}

type PrintableEntry = Omit<LogEntry, 'difference'> & { difference?: object | undefined };

/** Returns the name of an application, or its id if the name is unknown. */
export type NameOf = (id: string) => string;
const noNames: NameOf = (id) => id;

export function printEntries(
  { json, print, colorize }: Context,
  entries: readonly PrintableEntry[],
  nameOf = noNames,
): void {
  const colors = { success: undefined, denied: 'red', failed: 'yellow' } as const;
  const line = (entry: PrintableEntry) => {
    const [text, color] = [formatEntry(entry, nameOf), colors[entry.result]];
    return color ? text.replace(entry.result, colorize(color, entry.result)) : text;
  };
  for (const entry of entries) print(json ? JSON.stringify(entry) : line(entry));
}

export function formatEntry(entry: PrintableEntry, nameOf = noNames): string {
  const { at, result, operation, entity, actor, from, reason, count, difference, request_id } = entry;
  const parts = [
    at,
    result.padEnd(7),
    operation,
    entity && `${entity.kind} ${entity.kind === 'application' ? nameOf(entity.id) : entity.id}`,
    formatResource(entry),
    formatDecision(entry),
    entry.use &&
      `at ${entry.use.name}: ${entry.use.method} ${entry.use.path} ${entry.use.status ?? ''}`.trim(),
    `by ${describeActor(actor, nameOf)}`,
    from.ip && `from ${from.ip}`,
    reason && [reason, entry.decision?.reason && `(${entry.decision.reason})`].filter(Boolean).join(' '),
    count && `×${count}`,
    entry.overflow && '(different sessions, addresses or containers)',
    difference && !/\.(create|delete)$/.test(operation) && formatDifference(operation, difference),
    entry.purpose && `purpose ${JSON.stringify(entry.purpose)}`,
    request_id && `request ${request_id}`,
  ];
  return escapeText(parts.filter(Boolean).join('  '));
}

/** The names of the changed fields. For a change of `SALLYPORT_AUDIT_READS`, also the values. */
function formatDifference(operation: string, difference: object): string {
  if (operation !== readsOperation) return `changed ${Object.keys(difference).join(', ')}`;
  return Object.entries(difference as Difference)
    .map(([name, { from, to }]) => `${name} ${from === undefined ? '' : `${from} → `}${to}`)
    .join(', ');
}

function describeActor(actor: PrintableEntry['actor'], nameOf: NameOf): string {
  const { kind, id, application_id, subject, person } = actor;
  if (id === undefined) return kind;
  if (person) return `${personName(person)} as ${kind} ${nameOf(id)}`;
  if (kind === 'application') return `${kind} ${nameOf(id)}`;
  const name = application_id && nameOf(application_id);
  const session = name && name !== application_id ? `${kind} ${id} of ${name}` : `${kind} ${id}`;
  return subject === undefined ? session : `${session} for ${subject}`;
}

/** Maximum number of ids that are printed for an entry. */
const maxIds = 3;

/** Omits a single id that equals that of the entity, which is printed before. */
function formatResource({ resource, entity }: PrintableEntry): string {
  const { ids: all = [], container, omitted = 0 } = resource ?? {};
  const ids = all.length === 1 && all[0] === entity?.id ? [] : all;
  const more = Math.max(0, ids.length - maxIds) + omitted;
  const rest = more > 0 ? [`and ${more} more`] : [];
  return [...ids.slice(0, maxIds), ...rest, ...(container === undefined ? [] : [`in ${container}`])].join(
    ' ',
  );
}

/** The transform of data that was returned, and the rule that decided. */
function formatDecision({ decision }: PrintableEntry): string {
  const { transform, rule } = decision ?? {};
  if (!rule) return transform ?? '';
  const source = rule.rule === 'permissions' ? 'permissions' : `rule ${rule.rule}`;
  return [transform, `by ${source} of the ${rule.of}`].filter(Boolean).join(' ');
}

/** Milliseconds between two polls, and the longest delay between two retries. */
const interval = 1000;
const maxDelay = 30_000;

/**
 * Polls until interrupted. If the service or the database is unavailable, warns once and retries with exponential
 * backoff.
 */
export async function follow(
  poll: (signal: AbortSignal) => Promise<void>,
  { writeError }: Pick<Terminal, 'writeError'>,
  errorContext: ErrorContext,
): Promise<void> {
  const stop = new AbortController();
  const { signal } = stop;
  const interrupted = untilSignal().then(() => stop.abort());
  for (let delay = interval; !signal.aborted; await sleep(delay, undefined, { signal }).catch(() => {})) {
    try {
      await Promise.race([poll(signal), interrupted]);
      delay = interval;
    } catch (error) {
      if (signal.aborted) return;
      if (!isTemporary(error)) throw error;
      const [message] = toCliError(error, errorContext).errors;
      if (delay === interval) writeError(`sallyport: warning: ${message}; retrying\n`);
      delay = Math.min(2 * delay, maxDelay);
    }
  }
}

function isTemporary(error: unknown): boolean {
  if (error instanceof Failure) return error.code === 'unavailable';
  return [ConnectionError, RateLimitError, UnavailableError].some((kind) => error instanceof kind);
}
