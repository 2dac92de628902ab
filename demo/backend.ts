/**
 * The backend of the bookshop: serves the page, knows the signed-in customer, and authorizes sessions. It also streams
 * its own requests to the page, which draws them.
 */
import {
  type AccessRule,
  type AuthorizedSession,
  authorizeSession,
  ProblemError,
  Sallyport,
} from '../sdk/src/sallyport.ts';
import cardPage from './page/card.html';
import page from './page/index.html';
import { type RecordedRequest, recordingFetch } from './recording-fetch.ts';

export interface BackendOptions {
  readonly port: number;
  /** A promise, because seeding the service needs the origin of the running backend. */
  readonly settings: Promise<BackendSettings>;
}

export interface BackendSettings {
  /** URL of the Sallyport service. */
  readonly serviceUrl: string;
  /** Origin of its frames. */
  readonly framesUrl: string;
  /** Sent to the page. */
  readonly publicKey: string;
  readonly privateKey: string;
  /** The key of the application that may read the audit log. */
  readonly auditorKey: string;
  /** The key of the application that may charge cards. Undefined if the demo has no payment provider. */
  readonly chargeKey?: string | undefined;
}

export interface Backend {
  readonly backend: Bun.Server<undefined>;
  /** Streams a request of another part of the demo to the page. */
  report(request: RecordedRequest): void;
}

type Transform = AccessRule['transform'];

/** The signed-in customer. A real shop reads this from its login session. */
const customer = '42';

export function rulesFor(transform: Transform): AccessRule[] {
  const own = { attribute: 'container', operator: 'starts_with', value: `/customers/${customer}/` } as const;
  return [{ priority: 1, transform, permissions: ['token:read'], conditions: [own] }];
}

/** For the page with frames: the customer may add cards and see them. */
const cardRules: AccessRule[] = [
  { ...(rulesFor('reveal')[0] as AccessRule), permissions: ['token:create', 'token:read'] },
];

/** Reads the nonce and authorizes its session with these rules. */
async function authorize(request: Request, rules: AccessRule[], client: Sallyport): Promise<Response> {
  // Prevents CSRF: a page of another site cannot send this type without a CORS preflight.
  if (request.headers.get('content-type') !== 'application/json') return new Response(null, { status: 415 });
  const { nonce } = (await request.json()) as { nonce: string };
  return toResponse(authorizeSession(client, nonce, { rules }));
}

/** Charges a card that neither the page nor the backend has. Returns the reply of the payment provider. */
async function charge(request: Request, { serviceUrl, chargeKey = '' }: BackendSettings, send: typeof fetch) {
  if (request.headers.get('content-type') !== 'application/json') return new Response(null, { status: 415 });
  const { card, code } = (await request.json()) as { card: string; code: string };
  const number = `{{ token: ${card} }}`;
  const body = {
    amount: 4200,
    card: { number, exp_month: number, exp_year: number, code: `{{ token: ${code} }}` },
  };
  const reply = await send(`${serviceUrl}/proxy/payments/v1/charges`, {
    method: 'POST',
    headers: { 'SVC-API-KEY': chargeKey, 'SVC-PURPOSE': 'order 4711', 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  return Response.json(await reply.json(), { status: reply.status });
}

export function startBackend({ port, settings }: BackendOptions): Backend {
  const watchers = new Set<(exchange: RecordedRequest) => void>();
  const report = (request: RecordedRequest) => {
    for (const send of watchers) send(request);
  };
  const fetch = recordingFetch('backend', 'sallyport', report);
  const client = async () => {
    const { serviceUrl: url, privateKey: key } = await settings;
    return new Sallyport({ url, key, fetch, retries: 0 });
  };
  let transform: Transform = 'mask';

  const backend = Bun.serve({
    hostname: '127.0.0.1',
    port,
    development: false,
    /** The event stream stays open as long as the page. */
    idleTimeout: 0,
    routes: {
      '/': page,
      '/card': cardPage,
      '/settings': async () => {
        const { serviceUrl, framesUrl, publicKey, chargeKey } = await settings;
        const canCharge = chargeKey !== undefined;
        return Response.json({ serviceUrl, framesUrl, publicKey, canCharge, visitedAt: new Date() });
      },
      '/sessions/authorize': {
        POST: async (request) => authorize(request, rulesFor(transform), await client()),
      },
      '/sessions/authorize-card': {
        POST: async (request) => authorize(request, cardRules, await client()),
      },
      '/charge': { POST: async (request) => charge(request, await settings, fetch) },
      '/policy': {
        GET: () => Response.json({ transform, rules: rulesFor(transform) }),
        PUT: async (request) => {
          ({ transform } = (await request.json()) as { transform: Transform });
          return Response.json({ transform, rules: rulesFor(transform) });
        },
      },
      '/log/:from': async ({ params: { from } }) => {
        const { serviceUrl, auditorKey } = await settings;
        const { data } = await new Sallyport({ url: serviceUrl, key: auditorKey }).logs.list({
          from,
          size: 6,
        });
        return Response.json(data);
      },
      '/exchanges': () => streamEvents(watchers),
    },
  });
  return { backend, report };
}

/** Passes the expiry of the session, or Sallyport's error, on to the page. */
async function toResponse(work: Promise<AuthorizedSession>): Promise<Response> {
  try {
    const { expiresAt } = await work;
    return new Response(null, { status: 204, headers: { 'SVC-SESSION-EXPIRES-AT': expiresAt } });
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    return Response.json({ code: error.code, detail: error.problem.detail }, { status: error.status });
  }
}

function streamEvents(watchers: Set<(exchange: RecordedRequest) => void>): Response {
  let stop = () => {};
  const events = new ReadableStream<string>({
    start: (controller) => {
      const send = (exchange: RecordedRequest) => controller.enqueue(`data: ${JSON.stringify(exchange)}\n\n`);
      watchers.add(send);
      stop = () => watchers.delete(send);
      controller.enqueue(': here\n\n');
    },
    cancel: () => stop(),
  });
  return new Response(events, { headers: { 'Content-Type': 'text/event-stream' } });
}
