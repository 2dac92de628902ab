/** Error classes. Errors returned by the service carry the problem document. */
import type { Problem } from './api.ts';

/** Base class of all errors that the SDK throws, except when the caller aborts a request. */
export class SallyportError extends Error {
  override name = 'SallyportError';
}

/** The service could not be reached, or its response could not be read. */
export class ConnectionError extends SallyportError {
  override name = 'ConnectionError';
}

/** No response within the timeout. */
export class TimeoutError extends ConnectionError {
  override name = 'TimeoutError';
}

/** The service returned an error. */
export class ProblemError extends SallyportError {
  override name = 'ProblemError';
  readonly problem: Problem;
  /** Milliseconds from the `Retry-After` header. */
  readonly retryAfter: number | undefined;

  constructor(problem: Problem, retryAfter?: number) {
    super(`${summaryOf(problem)} (${problem.code}, request ${problem.request_id})`);
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

/** The messages of the invalid fields, or `detail` if no field is invalid. */
function summaryOf({ title, detail, errors = {} }: Problem): string {
  const messages = Object.entries(errors).map(([field, reasons]) => `${field} ${reasons.join(' and ')}`);
  return messages.length > 0 ? `${title}: ${messages.join('; ')}` : detail;
}

/** 400: invalid input. `errors` has the messages by field. */
export class ValidationError extends ProblemError {
  override name = 'ValidationError';
  get errors(): Record<string, string[]> {
    return this.problem.errors ?? {};
  }
}

/** 401: the key is missing, unknown, revoked or expired. */
export class AuthenticationError extends ProblemError {
  override name = 'AuthenticationError';
}

/** 403: the key may not do this. `code` says why. */
export class PermissionError extends ProblemError {
  override name = 'PermissionError';
}

/** 404: no resource of this tenant has this id. */
export class NotFoundError extends ProblemError {
  override name = 'NotFoundError';
}

/** 409: for example, the nonce was already used or the token id is taken. 412: changed since `ifMatch`. */
export class ConflictError extends ProblemError {
  override name = 'ConflictError';
}

/** 429: a rate limit was exceeded. */
export class RateLimitError extends ProblemError {
  override name = 'RateLimitError';
}

/** 503: the service is temporarily unavailable. */
export class UnavailableError extends ProblemError {
  override name = 'UnavailableError';
}

const classes: Record<number, typeof ProblemError> = {
  400: ValidationError,
  401: AuthenticationError,
  403: PermissionError,
  404: NotFoundError,
  409: ConflictError,
  412: ConflictError,
  429: RateLimitError,
  503: UnavailableError,
};

export function toError(problem: Problem, retryAfter: number | undefined): ProblemError {
  return new (classes[problem.status] ?? ProblemError)(problem, retryAfter);
}
