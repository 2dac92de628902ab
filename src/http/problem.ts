/** The only place where an error becomes a response: RFC 9457 problem details. */
import { Failure, fail, problem } from '../domain/error.ts';
import type { Log } from '../log.ts';
import { headersWith } from './headers.ts';

const extraHeaders: Partial<Record<Failure['code'], Record<string, string>>> = {
  unauthenticated: { 'WWW-Authenticate': 'ApiKey header="SVC-API-KEY"' },
  unavailable: { 'Retry-After': '1' },
};

export interface Where {
  readonly method: string;
  /** Without the query, which may hold what does not belong in a log. */
  readonly path: string;
  readonly requestId: string;
}

export function problemResponse(
  error: unknown,
  where: Where,
  log: Log,
  extra: Record<string, string> = {},
): Response {
  const failure = error instanceof Failure ? error : fail('internal', { cause: error });
  const { status, title } = problem(failure.code);
  if (status >= 500)
    log.error('request failed', { ...where, code: failure.code, error: failure.cause ?? failure });
  const body = {
    type: `/docs#error-${failure.code}`,
    title,
    status,
    detail: failure.detail,
    instance: where.path,
    code: failure.code,
    request_id: where.requestId,
    ...(failure.errors && { errors: failure.errors }),
  };
  return new Response(JSON.stringify(body), {
    status,
    headers: headersWith(where.requestId, {
      'Content-Type': 'application/problem+json',
      ...extraHeaders[failure.code],
      ...extra,
    }),
  });
}
