/** What can go wrong, as classes to catch. Each that comes from the service has its problem inside. */
import type { Problem } from './api.ts';

export class SallyportError extends Error {
  override name = 'SallyportError';
}

/** The service could not be reached, or its answer not be read. */
export class ConnectionError extends SallyportError {
  override name = 'ConnectionError';
}

/** No answer in the time that was given. */
export class TimeoutError extends ConnectionError {
  override name = 'TimeoutError';
}

/** The service answered with a problem. */
export class ProblemError extends SallyportError {
  override name = 'ProblemError';
  readonly problem: Problem;
  /** Milliseconds after which the service would like to be asked again. */
  readonly retryAfter: number | undefined;

  constructor(problem: Problem, retryAfter?: number) {
    super(`${problem.detail}${partsOf(problem)} (${problem.code}, request ${problem.request_id})`);
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
  get status(): number {
    return this.problem.status;
  }
  get code(): Problem['code'] {
    return this.problem.code;
  }
  get requestId(): string {
    return this.problem.request_id;
  }
}

function partsOf({ errors = {} }: Problem): string {
  const parts = Object.entries(errors).map(([part, sentences]) => `${part} ${sentences.join(' and ')}`);
  return parts.length > 0 ? ` ${parts.join('; ')}` : '';
}

/** 400: `errors` says what is wrong with which part. */
export class ValidationError extends ProblemError {
  override name = 'ValidationError';
  get errors(): Record<string, string[]> {
    return this.problem.errors ?? {};
  }
}

/** 401: the key is not valid, or not any more. */
export class AuthenticationError extends ProblemError {
  override name = 'AuthenticationError';
}

/** 403: the key is valid, but may not do this. */
export class PermissionError extends ProblemError {
  override name = 'PermissionError';
}

/** 404 */
export class NotFoundError extends ProblemError {
  override name = 'NotFoundError';
}

/** 409: a nonce that was used, an id that is taken. */
export class ConflictError extends ProblemError {
  override name = 'ConflictError';
}

/** 429 */
export class RateLimitError extends ProblemError {
  override name = 'RateLimitError';
}

/** 503: try again shortly. */
export class UnavailableError extends ProblemError {
  override name = 'UnavailableError';
}

const classes: Record<number, typeof ProblemError> = {
  400: ValidationError,
  401: AuthenticationError,
  403: PermissionError,
  404: NotFoundError,
  409: ConflictError,
  429: RateLimitError,
  503: UnavailableError,
};

export function errorOf(problem: Problem, retryAfter: number | undefined): ProblemError {
  return new (classes[problem.status] ?? ProblemError)(problem, retryAfter);
}
