/**
 * The upper limit for the service: a bare `Bun.serve` that reads the key from the request headers and sends the same
 * response bytes as the service.
 */

/** Responses of the service by `METHOD path`. */
export type Responses = Record<string, { status: number; headers: Record<string, string>; body: string }>;

function route(recorded: Responses[string], method: string) {
  const { body, ...init } = recorded;
  const respond = ({ headers }: Request) =>
    headers.has('svc-api-key') ? new Response(body, init) : new Response('', { status: 401 });
  if (method === 'GET') return respond;
  return async (request: Request) => {
    await request.text();
    return respond(request);
  };
}

if (import.meta.main) {
  const routes: Record<string, Record<string, ReturnType<typeof route>>> = {};
  for (const [name, response] of Object.entries((await Bun.stdin.json()) as Responses)) {
    const [method, path] = name.split(' ') as [string, string];
    routes[path] = { ...routes[path], [method]: route(response, method) };
  }
  const { url } = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    routes,
    fetch: () => new Response('', { status: 404 }),
  });
  console.log(`listening on ${url.origin}`);
}
