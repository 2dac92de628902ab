/** The upper limit: a bare `Bun.serve` that sends the same response bytes. */

/** Responses of the service by `METHOD path`. */
export type Responses = Record<string, { status: number; headers: Record<string, string>; body: string }>;

function route(recorded: Responses[string], method: string) {
  const { body, ...init } = recorded;
  if (method === 'GET') return () => new Response(body, init);
  return async (request: Request) => {
    await request.text();
    return new Response(body, init);
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
