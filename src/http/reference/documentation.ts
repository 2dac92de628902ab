/** The endpoints of the OpenAPI document and the reference page. Both are generated on the first request and cached. */
import { z } from 'zod';
import { version } from '../../config/version.ts';
import { JsonText } from '../../domain/json-text.ts';
import { readQuery } from '../pipeline/read-input.ts';
import { openEndpoint, type Reply, type Route, reply } from '../pipeline/route.ts';
import { openApi } from './openapi.ts';
import { contentSecurityPolicy, referencePage } from './page.ts';

const OpenApi = z
  .looseObject({
    openapi: z.string().describe('Version of OpenAPI.'),
    info: z.looseObject({}).describe('Title and version of the API.'),
    paths: z.looseObject({}).describe('Every operation, by path and method.'),
  })
  .meta({ id: 'OpenApi' });

const sample = { openapi: '3.1.0', info: { title: 'Sallyport', version }, paths: {} };

const pageHeaders = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': contentSecurityPolicy,
  'Referrer-Policy': 'no-referrer',
};

/** `api` is called on the first request. */
export function documentation(api: () => readonly Route[]) {
  const document = once(() => openApi(api(), version));
  const page = once(() => referencePage(document()));
  const documentText = once(() => JsonText.of(document()));
  const compressedDocument = once(() => compress(documentText().text));
  const compressedPage = once(() => compress(page()));

  const getOpenApi = openEndpoint({
    name: 'getOpenApi',
    tag: 'Reference',
    summary: 'Get the OpenAPI document',
    description: 'Returns the OpenAPI 3.1 description of this API.',
    replies: { 200: reply('The OpenAPI document.', OpenApi, sample) },
    failures: ['validation_failed'],
    handle: async (_, request) => {
      readQuery(undefined, request.url);
      return withGzip(request, { status: 200, body: documentText() }, compressedDocument);
    },
  });

  const getReference = openEndpoint({
    name: 'getReference',
    tag: 'Reference',
    summary: 'Get the API reference',
    replies: { 200: { description: 'This page.' } },
    handle: async (_, request) =>
      withGzip(request, { status: 200, body: page(), headers: pageHeaders }, compressedPage),
  });

  return { getOpenApi, getReference };
}

export const getHome = openEndpoint({
  name: 'getHome',
  tag: 'Reference',
  summary: 'Redirect to the API reference',
  replies: { 302: { description: 'Redirects to `/docs`.' } },
  handle: async () => ({ status: 302, headers: { Location: '/docs' } }),
});

function withGzip(request: Request, reply: Reply, compressed: () => Uint8Array<ArrayBuffer>): Reply {
  const headers = { ...reply.headers, Vary: 'Accept-Encoding' };
  if (!acceptsGzip(request.headers.get('accept-encoding'))) return { ...reply, headers };
  return { ...reply, encoded: compressed(), headers: { ...headers, 'Content-Encoding': 'gzip' } };
}

/** Whether an `Accept-Encoding` header accepts gzip (RFC 9110). Without the header, responses are not compressed. */
export function acceptsGzip(header: string | null): boolean {
  const weights = new Map<string, number>();
  for (const item of (header ?? '').split(',')) {
    const [coding = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
    weights.set(coding, weight === undefined ? 1 : Number(weight));
  }
  const weight = weights.get('gzip') ?? weights.get('x-gzip') ?? weights.get('*') ?? 0;
  return weight > 0;
}

function compress(text: string): Uint8Array<ArrayBuffer> {
  return Bun.gzipSync(text, { level: 9 });
}

function once<T>(compute: () => T): () => T {
  let cached: { value: T } | undefined;
  return () => {
    cached ??= { value: compute() };
    return cached.value;
  };
}
