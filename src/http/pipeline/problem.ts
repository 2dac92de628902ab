/** The only place where an error becomes a response: RFC 9457 problem details. */
import { z } from 'zod';
import { type Code, codes, Failure, fail, problem } from '../../domain/error.ts';
import { redactSecrets } from '../../domain/key.ts';
import type { Log } from '../../log.ts';
import { noQuotas } from './limits.ts';
import { logFields, type RequestInfo } from './request-info.ts';
import { respondWith } from './response.ts';

export const Problem = z
  .object({
    type: z.string().describe('Where this kind of failure is explained.'),
    title: z.string().describe('The kind of failure, in words that do not change with the request.'),
    status: z.int().min(400).max(599).describe('The status of the response.'),
    detail: z.string().describe('What is wrong this time, or what to do about it.'),
    instance: z.string().describe('The path of the request.'),
    code: z.enum(codes as [Code, ...Code[]]).describe('The kind of failure, for programs.'),
    request_id: z.string().describe('As in the `SVC-REQUEST-ID` header.'),
    errors: z
      .record(z.string(), z.array(z.string()))
      .optional()
      .describe('Only for input that is not valid: what must change, by the dotted path of the part.'),
  })
  .meta({ id: 'Problem' });

const extraHeaders: Partial<Record<Failure['code'], Record<string, string>>> = {
  unauthenticated: { 'WWW-Authenticate': 'ApiKey header="SVC-API-KEY"' },
  too_many_requests: { 'Retry-After': '1' },
  unavailable: { 'Retry-After': '1' },
};

export function problemResponse(
  error: unknown,
  where: RequestInfo,
  log: Log,
  extra: Record<string, string> = {},
  quotas = noQuotas,
): Response {
  const failure = error instanceof Failure ? error : fail('internal', { cause: error });
  const { status } = problem(failure.code);
  if (status >= 500 && !failure.expected)
    log.error('request failed', { ...logFields(where), code: failure.code, error: failure.cause ?? failure });
  const text = redactSecrets(JSON.stringify(problemBody(failure, where)));
  const more = {
    'Content-Type': 'application/problem+json',
    ...extraHeaders[failure.code],
    ...(failure.retryAfter !== undefined && { 'Retry-After': String(failure.retryAfter) }),
    ...extra,
  };
  return respondWith(text, status, where.requestId, more, quotas);
}

export function problemBody(
  { code, detail, errors }: Failure,
  { path, requestId }: Pick<RequestInfo, 'path' | 'requestId'>,
): z.infer<typeof Problem> {
  const { status, title } = problem(code);
  const type = `/docs#error-${code}`;
  return {
    type,
    title,
    status,
    detail,
    instance: path,
    code,
    request_id: requestId,
    ...(errors && { errors }),
  };
}
