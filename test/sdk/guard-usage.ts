/** `tsc` checks that the guards fit the types of the frameworks. A test compares the calls with those of the guide. */
import type { Express, Request as ExpressRequest, RequestHandler } from 'express';
import type { FastifyInstance, FastifyRequest, RouteHandler } from 'fastify';
import type { Context, Hono } from 'hono';
import type { Decision } from '../../sdk/src/api.ts';
import {
  decisionOf,
  type GuardOptions,
  guardExpress,
  guardFastify,
  guardFetch,
  guardHono,
  guardNext,
} from '../../sdk/src/guard.ts';
import { Sallyport } from '../../sdk/src/sallyport.ts';

const path = '/customers/:customer/invoices';
/** Without an annotation, as the guide has it: the type of the request must not be needed. */
const options = {
  client: new Sallyport({ url: 'http://127.0.0.1:8080', key: 'x' }),
  permission: 'invoice:read',
  resource: ({ params }: { params: Readonly<Record<string, string | undefined>> }) => ({
    container: `/customers/${params.customer}/`,
  }),
  fields: ['iban'],
};
type WithUser<R> = R & { user?: string };
const forUser = <R>(resource: NonNullable<GuardOptions<R>['resource']>): GuardOptions<R> => ({
  ...options,
  resource,
});

export function express(app: Express) {
  const handler: RequestHandler = (_, response) => void response.json(response.locals.decision);
  app.get(path, guardExpress(options), handler);
  app.get(path, guardExpress({ ...options, resource: ({ params }) => ({ id: params.id ?? '' }) }), handler);
  const ofUser = forUser<WithUser<ExpressRequest>>(({ original }) => ({ id: original.user ?? '' }));
  app.get(path, guardExpress(ofUser), handler);
}

export function fastify(app: FastifyInstance) {
  const handler: RouteHandler = async (request): Promise<Decision | undefined> => decisionOf(request);
  app.get(path, guardFastify(options), handler);
  app.get(path, { ...guardFastify(options), bodyLimit: 1 }, handler);
  app.get<{ Params: { id: string } }>(path, guardFastify(options), async ({ params }) => params.id);
  const ofUser = forUser<WithUser<FastifyRequest>>(({ original }) => ({ id: original.user ?? '' }));
  app.get(path, guardFastify(ofUser), handler);
}

export function hono(app: Hono) {
  const handler = (c: Context) => c.json(c.get('decision'));
  app.get(path, guardHono(options), handler);
  const ofUser = forUser<Context>(({ original }) => ({ id: original.get('user') }));
  app.get(path, guardHono(ofUser), handler);
}

/** What Next.js 16 expects of a route handler. */
interface NextRoute {
  readonly GET: (request: Request, context: { params: Promise<{ customer: string }> }) => Promise<Response>;
}
const GET = guardNext(options, (request, context, decision) =>
  Response.json([request.url, context.params, decision.transform]),
);
export const next: NextRoute = { GET };

const handler = (request: Request, decision: Decision) => Response.json([request.url, decision.transform]);
export const fetch: (request: Request) => Promise<Response> = guardFetch(options, handler);
