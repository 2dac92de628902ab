/** Turns errors into RFC 9457 problem details. */
import { z } from 'zod';
import { Text } from '../../domain/common-fields.ts';
import { type Code, codes, Failure, fail, problem } from '../../domain/error.ts';
import { redactSecrets } from '../../domain/key.ts';
import type { Log } from '../../telemetry/log.ts';
import { logFields, RateLimitStatus, type RequestInfo } from './request-info.ts';
import { respondWith } from './response.ts';

export const Problem = z
  .object({
    type: Text.describe('The URL path that documents this error.'),
    title: Text.describe('A short summary, the same for every error with this `code`.'),
    status: z.int().min(400).max(599).describe('The HTTP status code.'),
    detail: Text.describe('The error in this request, and what to do about it.'),
    instance: Text.describe('The path of the request.'),
    code: z.enum(codes as [Code, ...Code[]]).describe('The error code, for programs.'),
    request_id: Text.describe('The request id, as in the `SVC-REQUEST-ID` header.'),
    explanation: Text.optional().describe(
      'For 403: the address of the console page with the recorded decision and the smallest grant that is missing, relative to this server. It contains only the request id, and shows the decision only to keys with `log:read`.',
    ),
    errors: z
      .record(z.string(), z.array(z.string()))
      .optional()
      .describe('For `validation_failed`: the messages for each invalid field, by its dotted path.'),
    sent: z
      .literal(true)
      .optional()
      .describe('The request was sent to the destination, at least in part. Absent if it was not.'),
    message: Text.optional().describe(
      'Only under `/proxy/`: the `detail` with `errors`, as Octokit reads it.',
    ),
    error: z
      .object({
        type: Text.describe('The kind of error, such as `invalid_request_error`.'),
        message: Text.describe('The `detail` with `errors`.'),
        code: Text.describe('The `code`.'),
      })
      .optional()
      .describe("Only under `/proxy/`: what the libraries of the destinations' providers read."),
  })
  .meta({ id: 'Problem' });

const codeHeaders: Partial<Record<Code, Record<string, string>>> = {
  too_many_requests: { 'Retry-After': '1' },
  unavailable: { 'Retry-After': '1' },
  disk_full: { 'Retry-After': '30' },
  destination_suspended: { 'Retry-After': '1' },
};

export const defaultKeyChallenge = 'ApiKey header="SVC-API-KEY"';

/**
 * Headers for the libraries of providers, which send requests under /proxy/. Most repeat what failed with a 5xx, unless a
 * header forbids it. Some parse only `application/json`, and say so in `Accept`.
 */
export function libraryHeaders(
  error: unknown,
  { path }: RequestInfo,
  accept: string,
): Record<string, string> {
  if (!isProxied(path)) return {};
  const { code, sent } = error instanceof Failure ? error : fail('internal');
  const mayHelp = !sent && (code === 'destination_unreachable' || [429, 503].includes(problem(code).status));
  return {
    ...(!mayHelp && { 'x-should-retry': 'false', 'stripe-should-retry': 'false' }),
    ...(/json/i.test(accept) && !/problem|\*\/\*/i.test(accept) && { 'Content-Type': 'application/json' }),
  };
}

const isProxied = (path: string) => path.startsWith('/proxy/');

/** The words of several providers. Others are `invalid_request_error`, or `api_error` from status 500. */
const errorTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
};

function libraryError({ code, detail, errors = {} }: Failure) {
  const { status } = problem(code);
  const fields = Object.entries(errors).map(([field, reasons]) => `${field} ${reasons.join(' and ')}`);
  const message = [detail, ...(fields.length > 0 ? [`${fields.join('; ')}.`] : [])].join(' ');
  const type = errorTypes[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  return { message, error: { type, message, code } };
}

/** A 401 does not show rate limits: the response must be the same for every invalid key. */
const noRateLimits = new RateLimitStatus();

/**
 * An error that is not a `Failure` becomes `internal`. Server errors are logged; their cause is never sent.
 * `keyChallenge` is the `WWW-Authenticate` of a 401.
 */
export function problemResponse(
  error: unknown,
  requestInfo: RequestInfo,
  log: Log,
  extraHeaders: Record<string, string> = {},
  keyChallenge = defaultKeyChallenge,
): Response {
  const failure = error instanceof Failure ? error : fail('internal', { cause: error });
  const { code, retryAfter } = failure;
  const { status } = problem(code);
  if (status >= 500) requestInfo.failure = failure;
  if (status >= 500 && !failure.expected)
    log.error('request failed', { ...logFields(requestInfo), code, error: failure.cause ?? failure });
  const text = redactSecrets(JSON.stringify(problemBody(failure, requestInfo)));
  const isUnauthenticated = code === 'unauthenticated';
  const dpopError = isUnauthenticated && requestInfo.dpop?.error;
  const headers = {
    'Content-Type': 'application/problem+json',
    ...codeHeaders[code],
    ...(isUnauthenticated && { 'WWW-Authenticate': dpopError ? `DPoP error="${dpopError}"` : keyChallenge }),
    ...(retryAfter !== undefined && { 'Retry-After': String(retryAfter) }),
    ...extraHeaders,
  };
  const rateLimits = isUnauthenticated ? noRateLimits : requestInfo.rateLimits;
  const dpop = isUnauthenticated && !dpopError ? undefined : requestInfo.dpop;
  return respondWith(text, status, { requestId: requestInfo.requestId, rateLimits, dpop }, headers);
}

export function problemBody(
  failure: Failure,
  { path, requestId }: Pick<RequestInfo, 'path' | 'requestId'>,
): z.infer<typeof Problem> {
  const { code, detail, errors, sent } = failure;
  const { status, title } = problem(code);
  return {
    type: `/docs/reference/errors#${code}`,
    title,
    status,
    detail,
    instance: path,
    code,
    request_id: requestId,
    ...(status === 403 && { explanation: `/console#/activity?q=${encodeURIComponent(requestId)}` }),
    ...(errors && { errors }),
    ...(sent && { sent }),
    ...(isProxied(path) && libraryError(failure)),
  };
}
