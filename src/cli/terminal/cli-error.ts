/** What went wrong, as lines for people and an exit code for programs. */

import {
  AuthenticationError,
  ConnectionError,
  ProblemError,
  RateLimitError,
  UnavailableError,
  ValidationError,
} from '../../../sdk/src/sallyport.ts';
import { ConfigError } from '../../config.ts';
import { Failure } from '../../domain/error.ts';
import { escapeText } from '../../domain/escape.ts';
import { WrongMasterKey } from '../../store/crypto/keyring.ts';
import { NoSchema, SchemaTooNew } from '../../store/engine/migrate.ts';
import { InUse } from '../../store/engine/sqlite-lock.ts';
import { Missing, Refused, UsageError } from '../errors.ts';
import { noDatabaseHint } from './open-store.ts';
import { databasePlace } from './paths.ts';
import { systemErrorOf } from './system-error.ts';

/** Every exit code that a command can end with. */
export const exitCodes: readonly (readonly [code: number, meaning: string])[] = [
  [0, 'success; for `can`, allowed; for `apply --plan`, no changes'],
  [
    1,
    'failure; for `can`, denied; for `apply --plan`, changes to make; for `health`, not ready; for `audit verify` and `doctor`, problems found',
  ],
  [2, 'wrong usage, setting or input file'],
  [3, 'the service is unreachable, or asked to retry later'],
  [4, 'the service refused the request or did not find the object; the error line has the code'],
  [130, 'interrupted twice; exited without draining'],
];

export interface CliError {
  readonly errors: readonly string[];
  readonly hint?: string | undefined;
  readonly code: number;
}

/** Where the command was at work, as far as that is known. */
export interface ErrorContext {
  databaseUrl?: string;
  url?: string;
}

export function toCliError(error: unknown, where: ErrorContext): CliError {
  if (error instanceof ProblemError || error instanceof ConnectionError) return ofService(error, where);
  if (error instanceof UsageError) {
    return {
      errors: error.message.split('\n'),
      hint: error.hint ?? 'run `sallyport --help`',
      code: 2,
    };
  }
  if (error instanceof Missing) {
    return { errors: [`${error.message} (not_found)`], hint: error.hint, code: 4 };
  }
  if (error instanceof Refused) return { errors: [error.message], hint: error.hint, code: 1 };
  if (error instanceof ConfigError) {
    const hint = error.hint ?? 'run `sallyport serve --help` for the settings';
    return { errors: [error.message], hint, code: 2 };
  }
  if (error instanceof SchemaTooNew) return { errors: [error.message], code: 1 };
  if (error instanceof NoSchema) {
    const database = where.databaseUrl ? databasePlace(where.databaseUrl) : 'the database';
    return { errors: [`${database} is empty`], hint: noDatabaseHint, code: 1 };
  }
  if (error instanceof InUse) return { errors: [error.message], hint: 'stop the service first', code: 1 };
  if (error instanceof WrongMasterKey) {
    return {
      errors: [error.message],
      hint: 'give the key that was in use when the data was written',
      code: 1,
    };
  }
  if (error instanceof Failure && error.code === 'unavailable') {
    const database = where.databaseUrl ? ` ${databasePlace(where.databaseUrl)}` : '';
    const hint = 'check that the database is there, and can be reached and written to from here';
    return { errors: [`DATABASE_URL${database}: ${error.message}`], hint, code: 1 };
  }
  const trouble = systemErrorOf(error);
  if (trouble) {
    const { path, says, todo } = trouble;
    return { errors: [path ? `${path}: ${says}` : says], hint: todo, code: 1 };
  }
  return { errors: [(error as Error)?.stack ?? String(error)], code: 1 };
}

function ofService(error: ProblemError | ConnectionError, { url }: ErrorContext): CliError {
  if (error instanceof ConnectionError) {
    const hint = 'sallyport serve starts one; SALLYPORT_URL or --url says where it is';
    return { errors: [`${url}: ${error.message}`], hint, code: 3 };
  }
  const { detail, code, request_id } = error.problem;
  const named = `${code}, request ${request_id}`;
  if (error instanceof ValidationError && Object.keys(error.errors).length > 0) {
    const parts = Object.entries(error.errors).flatMap(([path, why]) => why.map((one) => `${path} ${one}`));
    return { errors: parts.map((part) => escapeText(`${part} (${named})`)), code: 4 };
  }
  const later = error instanceof RateLimitError || error instanceof UnavailableError;
  const hint =
    error instanceof AuthenticationError
      ? 'the key is wrong, has expired, or was replaced: check SALLYPORT_KEY or --key-file'
      : undefined;
  return { errors: [escapeText(`${detail} (${named})`)], hint, code: later ? 3 : 4 };
}
