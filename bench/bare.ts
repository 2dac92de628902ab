/** The limit: a bare `Bun.serve` that sends the same bytes and does nothing else. */

/** Answers by `METHOD path`, as they were received from the service. */
export type Answers = Record<string, { status: number; headers: Record<string, string>; body: string }>;

function route(given: Answers[string], method: string) {
  const { body, ...init } = given;
  if (method === 'GET') return () => new Response(body, init);
  return async (request: Request) => {
    await request.text();
    return new Response(body, init);
  };
}

if (import.meta.main) {
  const routes: Record<string, Record<string, ReturnType<typeof route>>> = {};
  for (const [name, answer] of Object.entries((await Bun.stdin.json()) as Answers)) {
    const [method, path] = name.split(' ') as [string, string];
    routes[path] = { ...routes[path], [method]: route(answer, method) };
  }
  const { url } = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    routes,
    fetch: () => new Response('', { status: 404 }),
  });
  console.log(`listening on ${url.origin}`);
}
