/** The documentation, which is rendered at the first request for a page, and the OpenAPI document. */
import { version } from '../../config/version.ts';
import { readQuery } from '../pipeline/read-input.ts';
import { openEndpoint, type Route, reply } from '../pipeline/route.ts';
import { fileSender, pack } from '../pipeline/static-file.ts';
import { OpenApi, openApi } from '../reference/openapi.ts';

/** Allows only files of this service. Pages cannot be framed. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const pageHeaders = {
  'Content-Security-Policy': policy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
};

const send = fileSender(async () => (await import('../../../docs/site/build.ts')).buildDocs(), pageHeaders);

export const getDocs = openEndpoint({
  name: 'getDocs',
  tag: 'Reference',
  summary: 'Get the first page of the documentation',
  replies: { 200: { description: 'The page.' } },
  handle: (_, request) => send(request),
});

export const getDocsPage = openEndpoint({
  name: 'getDocsPage',
  tag: 'Reference',
  summary: 'Get a page of the documentation, or a file that it loads',
  replies: { 200: { description: 'The page or the file.' } },
  failures: ['path_unknown'],
  handle: (_, request) => send(request),
});

/** `routes` is called at the first request. */
export function openApiEndpoint(routes: () => readonly Route[]) {
  const file = { path: '/openapi.json', type: 'application/json', immutable: false };
  const sendDocument = fileSender(
    async () => [await pack(file, JSON.stringify(openApi(routes(), version)))],
    {},
  );
  return openEndpoint({
    name: 'getOpenApi',
    tag: 'Reference',
    summary: 'Get the OpenAPI document',
    description: 'Returns the OpenAPI 3.1 description of this API.',
    replies: {
      200: reply('The OpenAPI document.', OpenApi, {
        openapi: '3.1.0',
        info: { title: 'Sallyport', version },
        paths: {},
      }),
    },
    failures: ['validation_failed'],
    handle: async (_, request) => {
      readQuery(undefined, request.url);
      return sendDocument(request);
    },
  });
}

export const getHome = openEndpoint({
  name: 'getHome',
  tag: 'Reference',
  summary: 'Redirect to the documentation',
  replies: { 302: { description: 'Redirects to `/docs`.' } },
  handle: async () => ({ status: 302, headers: { Location: '/docs' } }),
});
