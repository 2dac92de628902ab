/** The OpenAPI document and the page made from it: each made when it is first asked for, and kept. */
import { z } from 'zod';
import { version } from '../../version.ts';
import { readQuery } from '../pipeline/read-query.ts';
import { openRoute, type Route } from '../pipeline/route.ts';
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

export function documentation(api: readonly Route[]): Route[] {
  const document = once(() => openApi([...api, openapi], version));
  const openapi = openRoute({
    method: 'GET',
    path: '/openapi.json',
    name: 'getOpenApi',
    tag: 'Reference',
    summary: 'Get this interface as an OpenAPI 3.1 document',
    description: 'Made from the declarations that check requests, so it cannot differ from what they do.',
    replies: { 200: { description: 'The document.', schema: OpenApi, example: sample } },
    failures: ['validation_failed'],
    handle: (_, { url }) => {
      readQuery(undefined, url);
      return { status: 200, body: document() };
    },
  });
  const page = once(() => referencePage(document()));
  return [openapi, docs(page), home];
}

function docs(page: () => string): Route {
  const headers = {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': contentSecurityPolicy,
    'Referrer-Policy': 'no-referrer',
  };
  return openRoute({
    method: 'GET',
    path: '/docs',
    name: 'getReference',
    tag: 'Reference',
    summary: 'Read this interface as a page',
    replies: { 200: { description: 'The page.' } },
    handle: () => ({ status: 200, body: page(), headers }),
  });
}

const home = openRoute({
  method: 'GET',
  path: '/',
  name: 'getHome',
  tag: 'Reference',
  summary: 'Go to the reference',
  replies: { 302: { description: 'It is at /docs.' } },
  handle: () => ({ status: 302, headers: { Location: '/docs' } }),
});

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
