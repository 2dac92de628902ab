/** The OpenAPI document and the API reference page made from it, both made once at start. */
import { version } from '../version.ts';
import { openApi } from './openapi.ts';
import { openRoute, type Route } from './route.ts';

export function documentation(routes: readonly Route[]): Route[] {
  const document = JSON.stringify(openApi(routes, version));
  return [
    openRoute({
      method: 'GET',
      path: '/openapi.json',
      name: 'openapi',
      tag: 'Reference',
      summary: 'This interface as an OpenAPI 3.1 document',
      replies: { 200: { description: 'The document.' } },
      handle: () => ({ status: 200, body: document, headers: { 'Content-Type': 'application/json' } }),
    }),
  ];
}
