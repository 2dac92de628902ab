/** Entry point of the package. */
export { type AboutOptions, type AboutSubject, aboutSubject, type Reads } from './about.ts';
export type * from './api.ts';
export { type AuthorizedSession, type CreatedToken, type DestinationProxy, Sallyport } from './client.ts';
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
export { accessReport, type ReportFile, type ReportOptions, toCsv } from './report.ts';
export { authorizeSession, type ManagedSession, type StartSessionOptions, startSession } from './session.ts';
export {
  type ChangeOptions,
  type ClientOptions,
  errorIn,
  etagOf,
  type ProxyOptions,
  type RequestOptions,
} from './transport.ts';
export { ExchangeError, githubToken, type WorkloadKeyOptions, workloadKey } from './workload.ts';
