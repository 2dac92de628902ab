/**
 * The backend of the bookshop: serves the page, knows who the customer is, and lets their Session in. It is all
 * that a backend needs for that, and a second listener besides, which tells the page what it sends.
 */
import { type AccessRule, authorizeSession, ProblemError, Sallyport } from '../sdk/src/sallyport.ts';
import { type Exchange, recording } from './exchange.ts';
import page from './page/index.html';

export interface BackendOptions {
  readonly port: number;
  /** Known a moment after the backend is: the page may use the vault only from where the backend is. */
  readonly settings: Promise<BackendSettings>;
}

export interface BackendSettings {
  /** Where the service is. */
  readonly vault: string;
  /** Handed to the page. */
  readonly publicKey: string;
  readonly privateKey: string;
  /** Reads the audit log. */
  readonly auditorKey: string;
}

type Transform = AccessRule['transform'];

/** A shop would take it from its own login. */
const customer = '42';

export function rulesFor(transform: Transform): AccessRule[] {
  const own = { attribute: 'container', operator: 'starts_with', value: `/customers/${customer}/` } as const;
  return [{ priority: 1, transform, permissions: ['token:read'], conditions: [own] }];
}

export function startBackend({ port, settings }: BackendOptions): Bun.Server<undefined> {
  const watchers = new Set<(exchange: Exchange) => void>();
  const fetch = recording('backend', 'vault', (exchange) => {
    for (const tell of watchers) tell(exchange);
  });
  let transform: Transform = 'mask';

  return Bun.serve({
    hostname: '127.0.0.1',
    port,
    development: false,
    /** The page listens for as long as it is open, whether there is anything to tell or not. */
    idleTimeout: 0,
    routes: {
      '/': page,
      '/settings': async () => {
        const { vault, publicKey } = await settings;
        return Response.json({ vault, publicKey, visited: new Date() });
      },
      '/sessions/authorize': {
        POST: async (request) => {
          const { nonce } = (await request.json()) as { nonce: string };
          const { vault, privateKey } = await settings;
          const client = new Sallyport({ url: vault, key: privateKey, fetch, retries: 0 });
          return answered(authorizeSession(client, nonce, { rules: rulesFor(transform) }));
        },
      },
      '/policy': {
        GET: () => Response.json({ transform, rules: rulesFor(transform) }),
        PUT: async (request) => {
          ({ transform } = (await request.json()) as { transform: Transform });
          return Response.json({ transform, rules: rulesFor(transform) });
        },
      },
      '/log/:from': async ({ params: { from } }) => {
        const { vault, auditorKey } = await settings;
        const { data } = await new Sallyport({ url: vault, key: auditorKey }).logs.list({ from, size: 6 });
        return Response.json(data);
      },
      '/exchanges': () => watch(watchers),
    },
  });
}

/** The page is told what the vault said. */
async function answered(work: Promise<void>): Promise<Response> {
  try {
    await work;
    return new Response(null, { status: 204 });
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    return Response.json({ code: error.code, detail: error.problem.detail }, { status: error.status });
  }
}

function watch(watchers: Set<(exchange: Exchange) => void>): Response {
  let stop = () => {};
  const events = new ReadableStream<string>({
    start: (controller) => {
      const tell = (exchange: Exchange) => controller.enqueue(`data: ${JSON.stringify(exchange)}\n\n`);
      watchers.add(tell);
      stop = () => watchers.delete(tell);
      controller.enqueue(': here\n\n');
    },
    cancel: () => stop(),
  });
  return new Response(events, { headers: { 'Content-Type': 'text/event-stream' } });
}
