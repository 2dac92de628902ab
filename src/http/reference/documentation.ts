/** The OpenAPI document and the reference page. Both are generated on the first request and cached. */
import { z } from 'zod';
import { version } from '../../version.ts';
import { readQuery } from '../pipeline/read-input.ts';
import { openEndpoint, type Route } from '../pipeline/route.ts';
import { openApi } from './openapi.ts';
import { contentSecurityPolicy, referencePage } from './page.ts';

const OpenApi = z
  .looseObject({
    openapi: z.string().describe('The version of OpenAPI.'),
    info: z.looseObject({}).describe('What this is, and which version.'),
    paths: z.looseObject({}).describe('Every operation, by its path and method.'),
  })
  .meta({ id: 'OpenApi' });

const sample = { openapi: '3.1.0', info: { title: 'Sallyport', version }, paths: {} };

const pageHeaders = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': contentSecurityPolicy,
  'Referrer-Policy': 'no-referrer',
};

/** The endpoints that describe the API. `api` is called on the first request. */
export function documentation(api: () => readonly Route[]) {
  const document = once(() => openApi(api(), version));
  const page = once(() => referencePage(document()));

  const getOpenApi = openEndpoint({
    name: 'getOpenApi',
    tag: 'Reference',
    summary: 'Get this interface as an OpenAPI 3.1 document',
    description: 'Generated from the declarations that validate requests.',
    replies: { 200: { description: 'The document.', schema: OpenApi, example: sample } },
    failures: ['validation_failed'],
    handle: async (_, { url }) => {
      readQuery(undefined, url);
      return { status: 200, body: document() };
    },
  });

  const getReference = openEndpoint({
    name: 'getReference',
    tag: 'Reference',
    summary: 'Read this interface as a page',
    replies: { 200: { description: 'The page.' } },
    handle: async () => ({ status: 200, body: page(), headers: pageHeaders }),
  });

  return { getOpenApi, getReference };
}

export const getHome = openEndpoint({
  name: 'getHome',
  tag: 'Reference',
  summary: 'Go to the reference',
  replies: { 302: { description: 'It is at /docs.' } },
  handle: async () => ({ status: 302, headers: { Location: '/docs' } }),
});

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
