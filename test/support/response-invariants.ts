/** Checks on every response of the API. The tests' client applies them to each request. */
import { expect } from 'bun:test';
import { codes, problem } from '../../src/domain/error.ts';

const problemFields = ['type', 'title', 'status', 'detail', 'instance', 'code', 'request_id'];

const afterSending = ['destination_failed', 'destination_timeout', 'destination_echoed_data'];

interface Response {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: checked here
  readonly body: any;
}

export function expectResponseInvariants(method: string, { status, headers, body }: Response): void {
  expect(headers.get('svc-request-id')).toMatch(/^[A-Za-z0-9._:-]{1,128}$/);
  expect(headers.get('cache-control')).toBe('no-store');
  expect(headers.get('x-content-type-options')).toBe('nosniff');
  expect(headers.get('content-security-policy')).toContain("default-src 'none'; ");
  expect(headers.get('access-control-allow-origin')).toBe('*');
  expect(headers.get('access-control-allow-credentials')).toBeNull();
  if (status === 204) expect(body).toBe('');
  // The status and body of a destination.
  if (headers.has('svc-destination')) return;
  if (status < 400 || method === 'HEAD') return;
  if (body.error_description !== undefined) {
    // The token endpoint (RFC 6749).
    expect([status, headers.get('content-type')]).toEqual([400, 'application/json']);
    expect(Object.keys(body)).toEqual(['error', 'error_description']);
    return;
  }

  expect(headers.get('content-type')).toBe('application/problem+json');
  expect(codes).toContain(body.code);
  const { status: declared, title } = problem(body.code);
  expect(body).toMatchObject({ status, title, type: `/docs/reference/errors#${body.code}` });
  expect(declared).toBe(status);
  expect(body.request_id).toBe(headers.get('svc-request-id'));
  expect(body.instance).toStartWith('/');
  expect(body.detail).toBeString();
  const address = `/console#/activity?q=${encodeURIComponent(body.request_id)}`;
  expect(body.explanation).toBe(status === 403 ? address : undefined);
  const more =
    body.code === 'validation_failed'
      ? ['errors']
      : status === 403
        ? ['explanation']
        : afterSending.includes(body.code)
          ? ['sent']
          : [];
  const forLibraries = body.instance.startsWith('/proxy/') ? ['message', 'error'] : [];
  const ofItems = more[0] !== 'errors' && body.errors ? Object.keys(body.errors) : [];
  for (const name of ofItems) expect(name).toMatch(/^tokens\.\d+(\.|$)/);
  if (ofItems.length > 0) more.push('errors');
  expect(Object.keys(body)).toEqual([...problemFields, ...more, ...forLibraries]);
  if (forLibraries.length > 0) expect(body.error).toMatchObject({ message: body.message, code: body.code });
}
