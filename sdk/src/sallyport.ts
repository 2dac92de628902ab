/** What a program imports. */
export type * from './api.ts';
export { Sallyport } from './client.ts';
export {
  AuthenticationError,
  ConflictError,
  ConnectionError,
  NotFoundError,
  PermissionError,
  ProblemError,
  RateLimitError,
  SallyportError,
  TimeoutError,
  UnavailableError,
  ValidationError,
} from './errors.ts';
export { authorizeSession, type StartedSession, type StartOptions, startSession } from './session.ts';
export type { CallOptions, Options } from './transport.ts';
