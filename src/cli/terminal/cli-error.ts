/** Maps every error to messages, a hint and an exit code. */

import {
  AuthenticationError,
  ConnectionError,
  ExchangeError,
  ProblemError,
  RateLimitError,
  SallyportError,
  TimeoutError,
  UnavailableError,
  ValidationError,
} from '../../../sdk/src/sallyport.ts';
import { EntriesDeleted } from '../../audit/errors.ts';
import { ConfigError } from '../../config/settings.ts';
import { WrongMasterKey } from '../../db/keys/keyring.ts';
import { LineTooLong } from '../../db/line-reader.ts';
import { IncompatibleSchema, NoSchema } from '../../db/migrate.ts';
import { InUse } from '../../db/sqlite/sqlite-lock.ts';
import { Failure } from '../../domain/error.ts';
import { escapeText } from '../../domain/escape.ts';
import { masterKeyHint } from '../../operations/master-key.ts';
import { type Options, optionFor } from '../command.ts';
import { CommandError, ErrorAbout, negativeExitCode, systemErrorOf, UsageError } from '../errors.ts';
import { databaseLabel, noDatabaseHint, unavailableHint } from './database.ts';

export const exitCodes: readonly (readonly [code: number, meaning: string])[] = [
  [0, 'success; for `can`, allowed; for `apply --plan`, no changes'],
  [1, 'failure; for `health`, not ready; for `audit verify` and `doctor`, problems found'],
  [2, 'wrong usage, setting or input file'],
  [3, 'the service is unreachable, or asked to retry later'],
  [4, 'the service rejected the request or did not find the object; the error line has the error code'],
  [
    negativeExitCode,
    'the check succeeded with a negative result: for `can`, denied; for `apply --plan`, changes to make',
  ],
  [129, 'stopped because the terminal was closed (SIGHUP); `serve` and `--follow` then exit with 0'],
  [130, 'interrupted with Ctrl-C (SIGINT), or twice; `serve` and `--follow` exit with 0 the first time'],
  [143, 'stopped by SIGTERM; `serve` and `--follow` then exit with 0'],
];

export interface CliError {
  readonly errors: readonly string[];
  readonly hint?: string | undefined;
  readonly code: number;
  /** If the service returned an error. */
  readonly problem?: ProblemError['problem'];
}

/** The command, its options, and the database or service that it uses, if known. */
export interface ErrorContext {
  command?: string;
  optionNames?: readonly string[];
  options?: Options;
  databaseUrl?: string;
  url?: string;
}

export function toCliError(error: unknown, context: ErrorContext): CliError {
  if (error instanceof ErrorAbout) {
    const inner = toCliError(error.cause, context);
    return { ...inner, errors: inner.errors.map((line) => `${escapeText(error.subject)}: ${line}`) };
  }
  if (error instanceof ProblemError || error instanceof ConnectionError) return fromService(error, context);
  if (error instanceof ExchangeError)
    return {
      errors: [error.message],
      hint: 'run `sallyport logs tail --operation key.exchange` with a key that holds log:read',
      code: 4,
    };
  // Arguments that the SDK refuses, or that are too long for a request.
  if (error instanceof SallyportError) return { errors: [error.message], code: 2 };
  if (error instanceof UsageError) {
    const help = ['sallyport', context.command, '--help'].filter(Boolean).join(' ');
    return { errors: error.message.split('\n'), hint: error.hint ?? `run \`${help}\``, code: 2 };
  }
  if (error instanceof EntriesDeleted)
    return { errors: [error.message], hint: 'run the command again', code: 1 };
  if (error instanceof LineTooLong) return { errors: [error.message], hint: 'check the file', code: 2 };
  if (error instanceof CommandError)
    return { errors: [error.message], hint: error.hint, code: error.exitCode };
  if (error instanceof ConfigError) {
    const hint = error.hint ?? 'run `sallyport serve --help` for the settings';
    return { errors: [error.message], hint, code: 2 };
  }
  if (error instanceof IncompatibleSchema) return { errors: [error.message], hint: error.todo, code: 1 };
  if (error instanceof NoSchema) {
    const database = context.databaseUrl ? databaseLabel(context.databaseUrl) : 'the database';
    return { errors: [`${database} is empty`], hint: noDatabaseHint, code: 1 };
  }
  if (error instanceof InUse) return { errors: [error.message], hint: 'stop the service first', code: 1 };
  if (error instanceof WrongMasterKey) return { errors: [error.message], hint: masterKeyHint, code: 1 };
  if (error instanceof Failure && error.code === 'unavailable') {
    const database = context.databaseUrl ? ` ${databaseLabel(context.databaseUrl)}` : '';
    const hint = unavailableHint(context.databaseUrl, error.message);
    return { errors: [`DATABASE_URL${database}: ${error.message}`], hint, code: 1 };
  }
  const known = systemErrorOf(error);
  if (known) {
    const { path, reason, hint } = known;
    return { errors: [path ? `${path}: ${reason}` : reason], hint, code: 1 };
  }
  return { errors: [(error as Error)?.stack ?? String(error)], code: 1 };
}

function fromService(error: ProblemError | ConnectionError, context: ErrorContext): CliError {
  if (error instanceof ConnectionError) {
    const cause = error.cause instanceof Error && !(error instanceof TimeoutError) && error.cause.message;
    const hint = 'check that the service runs, and set SALLYPORT_URL or --url to its address';
    const message = cause ? `${error.message} (${escapeText(cause)})` : error.message;
    return { errors: [context.url === undefined ? message : `${context.url}: ${message}`], hint, code: 3 };
  }
  const { problem } = error;
  const { detail, code, request_id } = problem;
  const reference = `${code}, request ${request_id}`;
  if (error instanceof ValidationError && Object.keys(error.errors).length > 0) {
    const parts = Object.entries(error.errors).flatMap(([path, messages]) =>
      messages.map((message) => `${withOption(path, context)} ${message}`),
    );
    return { errors: parts.map((part) => escapeText(`${part} (${reference})`)), code: 4, problem };
  }
  const isTemporary = error instanceof RateLimitError || error instanceof UnavailableError;
  const hint =
    error instanceof AuthenticationError
      ? 'the key is unknown, expired or revoked, or its tenant is disabled; check SALLYPORT_KEY or --key-file'
      : undefined;
  return { errors: [escapeText(`${detail} (${reference})`)], hint, code: isTemporary ? 3 : 4, problem };
}

/** The path of a field with the option that sets it. Other fields keep their path. */
function withOption(path: string, { optionNames = [], options }: ErrorContext): string {
  const [field = ''] = path.split('.');
  const name = optionFor(field, optionNames);
  if (name === undefined) return optionNames.includes('file') ? `${path} (in --file)` : path;
  if (options?.value('file') !== undefined && options.values(name) === undefined) return path;
  return path.replaceAll('_', '-') === name ? `--${name}` : `--${name} (${path})`;
}
