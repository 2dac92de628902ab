// The same routes in every framework, each behind its guard. Prints the ports as JSON, and serves until its
// standard input is closed.
import { createRequire } from 'node:module';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { serve } from '@hono/node-server';
import express4 from 'express4';
import express5 from 'express5';
import fastify from 'fastify';
import { Hono } from 'hono';

const { SDK, NEST = '{}', URL: url = '', KEY = '' } = process.env;
/** @type {typeof import('../../../sdk/src/guard.ts')} */
const { guardExpress, guardFastify, guardFetch, guardHono } = await import(`${SDK}/guard.js`);
/** @type {typeof import('../../../sdk/src/sallyport.ts')} */
const { Sallyport } = await import(`${SDK}/sallyport.js`);

const iban = 'DE02120300000000202051';
const invoice = { id: 1, iban, issued: new Date('2026-11-15T12:00:00Z'), lines: [{ iban, big: 1e21 }] };
const text = JSON.stringify(invoice);
const json = 'application/json; charset=utf-8';

/** @type {import('../../../sdk/src/guard.ts').GuardOptions} */
const options = {
  client: new Sallyport({ url, key: KEY }),
  permission: 'invoice:read',
  resource: ({ path }) => ({ container: `/customers/${path.split('/')[1]}/` }),
  fields: ['iban'],
  mask: (value) => `…${String(value).slice(-4)}`,
};
const unreachable = {
  ...options,
  client: new Sallyport({ url: 'http://127.0.0.1:9', key: KEY, retries: 0 }),
};
/** @type {import('../../../sdk/src/guard.ts').GuardOptions} */
const withPages = { ...options, notJson: 'pass' };
const throwing = {
  ...options,
  resource: () => {
    throw new Error('no such resource');
  },
};

const badMask = {
  ...options,
  mask: () => {
    throw new Error('this mask has a bug');
  },
};

/**
 * The signed-in user's customer, as if from a database.
 * @param {string | undefined} user
 */
const customerOf = async (user) => ({ container: `/customers/${user}/` });
/** @typedef {import('express').Request & { user?: string }} ExpressRequest */
/** @typedef {import('fastify').FastifyRequest & { user?: string }} FastifyRequest */
/** @typedef {import('hono').Context<{ Variables: { user: string } }>} HonoContext */

const bytes = Buffer.from(text);
const parts = () => Readable.from([bytes.subarray(0, 9), bytes.subarray(9)]);
const cutOff = () =>
  Readable.from(
    (async function* () {
      yield bytes.subarray(0, -5);
      throw new Error('the source failed');
    })(),
  );

/**
 * The response of each route: status, type, and a body as text or stream.
 * @type {Record<string, { status?: number, type?: string, headers?: Record<string, string>, body: string | (() => Readable) }>}
 */
const responses = {
  text: { type: json, body: text },
  stream: { type: json, body: parts },
  cut: { type: json, body: cutOff },
  problem: { status: 404, type: 'application/problem+json', body: text },
  broken: { type: json, body: `{"iban": "${iban}"` },
  page: { type: 'text/html; charset=utf-8', body: `<p>${iban}</p>` },
  file: { type: 'application/octet-stream', headers: { 'Content-Disposition': 'attachment' }, body: parts },
  lines: { type: 'application/x-ndjson', body: `${text}\n${text}\n` },
  cached: { type: json, headers: { 'Cache-Control': 'private, max-age=5', ETag: '"whole"' }, body: text },
  error: { status: 500, type: 'text/plain; charset=utf-8', body: 'out of order' },
};

/** @param {string} name */
function response(name) {
  if (name === 'invoice') return Response.json(invoice);
  if (name === 'empty') return new Response(null, { status: 204 });
  if (name === 'moved') return new Response(null, { status: 302, headers: { Location: '/elsewhere' } });
  const { status = 200, type = '', headers = {}, body } = responses[name] ?? fails();
  const sent = typeof body === 'string' ? body : /** @type {ReadableStream} */ (Readable.toWeb(body()));
  return new Response(sent, { status, headers: { 'Content-Type': type, ...headers } });
}

/** @returns {never} */
function fails() {
  throw new Error('unknown response');
}

/** @param {(request: Request) => Response | Promise<Response>} fetch */
function listen(fetch) {
  return new Promise((resolve) => {
    serve({ fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => resolve(port));
  });
}

function plainFetch() {
  /** @param {Request} request */
  const name = (request) => new URL(request.url).pathname.split('/')[2] ?? '';
  const routes = {
    unreachable: guardFetch(unreachable, () => response('invoice')),
    throwing: guardFetch(throwing, () => response('invoice')),
    'open-page': guardFetch(withPages, () => response('page')),
    'bad-mask': guardFetch(badMask, () => response('invoice')),
    'bad-mask-stream': guardFetch(badMask, () => response('stream')),
    user: guardFetch(
      { ...options, resource: ({ original }) => customerOf(original.headers.get('x-user') ?? undefined) },
      () => response('invoice'),
    ),
  };
  const guarded = guardFetch(options, (request) => response(name(request)));
  return listen((request) =>
    (routes[/** @type {keyof typeof routes} */ (name(request))] ?? guarded)(request),
  );
}

function hono() {
  const app = new Hono();
  app.onError((_, context) => context.text('failed', 500));
  app.get('/:customer/invoice', guardHono(options), (context) => context.json(invoice));
  app.get('/:customer/unreachable', guardHono(unreachable), (context) => context.json(invoice));
  app.get('/:customer/throwing', guardHono(throwing), (context) => context.json(invoice));
  app.get('/:customer/open-page', guardHono(withPages), () => response('page'));
  app.get('/:customer/bad-mask', guardHono(badMask), (context) => context.json(invoice));
  app.get('/:customer/bad-mask-stream', guardHono(badMask), () => response('stream'));
  /** @type {Hono<{ Variables: { user: string } }>} */
  const users = new Hono();
  users.use(async (context, next) => {
    context.set('user', context.req.header('x-user') ?? '');
    await next();
  });
  /** @type {import('../../../sdk/src/guard.ts').GuardOptions<HonoContext>} */
  const ofUser = { ...options, resource: ({ original }) => customerOf(original.get('user')) };
  users.get('/user', guardHono(ofUser), (context) => context.json(invoice));
  app.route('/:customer', users);
  app.get('/:customer/:name', guardHono(options), (context) => response(context.req.param('name')));
  return listen(app.fetch);
}

/** @type {import('express').RequestHandler} */
const signIn = (request, _, next) => {
  /** @type {ExpressRequest} */ (request).user = request.get('x-user');
  next();
};
/** @type {import('../../../sdk/src/guard.ts').GuardOptions<ExpressRequest>} */
const ofExpressUser = { ...options, resource: ({ original }) => customerOf(original.user) };
/** @type {import('express').RequestHandler} */
const hasty = (_, response, next) => {
  response.send('sent before the guard');
  next();
};
/** @type {import('express').RequestHandler} */
const sendRaw = (_, response) => {
  response.writeHead(200, 'OK', { 'Content-Type': json, 'Content-Length': text.length });
  response.flushHeaders();
  response.write(text.slice(0, 9), () => response.end(text.slice(9)));
};
/** @type {import('express').RequestHandler} */
const sendNamed = (request, response, next) => {
  const name = String(request.params.name);
  if (name === 'empty') return void response.status(204).end();
  if (name === 'moved') return response.redirect('/elsewhere');
  const { status = 200, type = '', headers = {}, body } = responses[name] ?? fails();
  response.status(status).set({ 'Content-Type': type, ...headers });
  if (typeof body === 'string') return void response.send(body);
  return pipeline(body(), response).catch((error) => void (response.headersSent || next(error)));
};

/** @param {typeof express5} framework */
function anyExpress(framework) {
  const app = framework();
  app.get('/:customer/invoice', guardExpress(options), (_, response) => {
    response.json(invoice);
  });
  app.get('/:customer/unreachable', guardExpress(unreachable), (_, response) => {
    response.json(invoice);
  });
  app.get('/:customer/throwing', guardExpress(throwing), (_, response) => {
    response.json(invoice);
  });
  app.get('/:customer/open-page', guardExpress(withPages), (_, response) => {
    response.send(responses.page?.body);
  });
  // Express 4 does not handle rejections of async handlers.
  app.get('/:customer/bad-mask', guardExpress(badMask), async (_, response) => {
    response.json(invoice);
  });
  app.get('/:customer/bad-mask-stream', guardExpress(badMask), (_, response) => {
    parts().pipe(response.type('json'));
  });
  app.get('/:customer/user', signIn, guardExpress(ofExpressUser), (_, response) => {
    response.json(invoice);
  });
  app.get('/:customer/hasty', hasty, guardExpress(options), (_, response) => {
    response.json(invoice);
  });
  app.get('/:customer/jsonp', guardExpress(options), (_, response) => {
    response.jsonp(invoice);
  });
  app.get('/:customer/raw', guardExpress(options), sendRaw);
  app.get('/:customer/bytes', guardExpress(options), (_, response) => {
    response.type('json').send(bytes);
  });
  app.get('/:customer/:name', guardExpress(options), sendNamed);
  /** @type {import('express').ErrorRequestHandler} */
  const failed = (_error, _request, response, _next) => {
    if (!response.headersSent) response.status(500).send('failed');
  };
  app.use(failed);
  return new Promise((resolve) => {
    const server = app.listen(0, '127.0.0.1', () => {
      resolve(/** @type {import('node:net').AddressInfo} */ (server.address()).port);
    });
  });
}

/** A handler with its guard. Nest sends what it returns, unless it takes the response itself. */
class NestRoute {
  /**
   * @param {import('../../../sdk/src/guard.ts').GuardOptions<ExpressRequest>} guard
   * @param {import('express').RequestHandler | (() => unknown)} handle
   */
  constructor(guard, handle) {
    this.guard = guard;
    this.handle = handle;
  }
}

/**
 * NestJS is not a dependency of this project.
 * @param {string} folder Where NestJS and the SDK are installed.
 */
async function nest(folder) {
  const load = createRequire(`${folder}/package.json`);
  load('reflect-metadata');
  /** @type {typeof import('../../../sdk/src/nest.ts')} */
  const { RequirePermission } = load('@sallyport/sdk/nest');
  const { Controller, Get, Module, Next, Req, Res } = load('@nestjs/common');
  const { NestFactory } = load('@nestjs/core');
  /** @type {Record<string, NestRoute>} */
  const routes = {
    invoice: new NestRoute(options, () => invoice),
    unreachable: new NestRoute(unreachable, () => invoice),
    throwing: new NestRoute(throwing, () => invoice),
    'open-page': new NestRoute(withPages, () => responses.page?.body),
    'bad-mask': new NestRoute(badMask, async () => invoice),
    'bad-mask-stream': new NestRoute(badMask, (_, response) => void parts().pipe(response.type('json'))),
    user: new NestRoute(ofExpressUser, () => invoice),
    hasty: new NestRoute(options, () => invoice),
    jsonp: new NestRoute(options, (_, response) => void response.jsonp(invoice)),
    raw: new NestRoute(options, sendRaw),
    bytes: new NestRoute(options, (_, response) => void response.type('json').send(bytes)),
    ':name': new NestRoute(options, sendNamed),
  };
  const controllers = Object.entries(routes).map(([path, { guard, handle }]) => {
    class Route {
      /** @param {[never, never, never]} given */
      handle(...given) {
        return handle(...given);
      }
    }
    const { prototype } = Route;
    const method = /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(prototype, 'handle'));
    if (handle.length > 0)
      for (const [at, given] of [Req(), Res(), Next()].entries()) given(prototype, 'handle', at);
    Get(`:customer/${path}`)(prototype, 'handle', method);
    RequirePermission(guard)(prototype, 'handle', method);
    Controller()(Route);
    return Route;
  });
  class Application {}
  Module({ controllers })(Application);
  const app = await NestFactory.create(Application, { logger: false });
  app.use(signIn);
  app.use('/:customer/hasty', hasty);
  await app.listen(0, '127.0.0.1');
  return app.getHttpServer().address().port;
}

async function anyFastify() {
  const app = fastify();
  app.get('/:customer/invoice', guardFastify(options), async () => invoice);
  app.get('/:customer/unreachable', guardFastify(unreachable), async () => invoice);
  app.get('/:customer/throwing', guardFastify(throwing), async () => invoice);
  app.get('/:customer/open-page', guardFastify(withPages), async (_, reply) =>
    reply.type('text/html').send(responses.page?.body),
  );
  app.get('/:customer/bad-mask', guardFastify(badMask), async () => invoice);
  app.get('/:customer/bad-mask-stream', guardFastify(badMask), async (_, reply) =>
    reply.type(json).send(parts()),
  );
  app.addHook('onRequest', async (request) => {
    /** @type {FastifyRequest} */ (request).user = String(request.headers['x-user']);
  });
  /** @type {import('../../../sdk/src/guard.ts').GuardOptions<FastifyRequest>} */
  const ofUser = { ...options, resource: ({ original }) => customerOf(original.user) };
  app.get('/:customer/user', guardFastify(ofUser), async () => invoice);
  app.get('/:customer/bytes', guardFastify(options), async (_, reply) => reply.type(json).send(bytes));
  app.get('/:customer/:name', guardFastify(options), async (request, reply) => {
    const { name } = /** @type {{ name: string }} */ (request.params);
    if (name === 'empty') return reply.code(204).send();
    if (name === 'moved') return reply.redirect('/elsewhere');
    const { status = 200, type = '', headers = {}, body } = responses[name] ?? fails();
    return reply
      .code(status)
      .headers({ 'Content-Type': type, ...headers })
      .send(typeof body === 'string' ? body : body());
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  return /** @type {import('node:net').AddressInfo} */ (app.addresses()[0]).port;
}

/** @type {Record<string, number>} */
const ports = {
  fetch: await plainFetch(),
  Hono: await hono(),
  'Express 5': await anyExpress(express5),
  'Express 4': await anyExpress(express4),
  Fastify: await anyFastify(),
};
for (const [name, folder] of Object.entries(JSON.parse(NEST))) ports[name] = await nest(folder);
console.log(JSON.stringify(ports));
process.stdin.resume().on('end', () => process.exit());
