/**
 * The shop's backend. It alone has the private key, knows its customers by a cookie, and lets a browser in for
 * what that customer may see.
 */
const { SALLYPORT, PRIVATE_KEY } = process.env as { SALLYPORT: string; PRIVATE_KEY: string };

function sallyport(method: string, path: string, body?: object): Promise<Response> {
  const headers = { 'SVC-API-KEY': PRIVATE_KEY, 'Content-Type': 'application/json' };
  return fetch(SALLYPORT + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
}

/** The card goes from where the page may only put things to where this customer's things are. */
async function keepCard(customer: string, id: string): Promise<Response> {
  return sallyport('PATCH', `/tokens/${id}`, { container: `/customers/${customer}/` });
}

async function letIn(customer: string, nonce: string): Promise<Response> {
  const rule = {
    description: `What customer ${customer} may see`,
    priority: 1,
    transform: 'mask',
    permissions: ['token:read'],
    conditions: [{ attribute: 'container', operator: 'starts_with', value: `/customers/${customer}/` }],
  };
  return sallyport('POST', '/sessions/authorize', { nonce, rules: [rule] });
}

/** What is charged; nothing but whether the whole number was there leaves this process. */
async function pay(id: string): Promise<Response> {
  const { data } = (await (await sallyport('GET', `/tokens/${id}`)).json()) as { data?: { number?: string } };
  return Response.json({ charged: /^\d{16}$/.test(data?.number ?? '') });
}

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: async (request) => {
    const customer = /customer=(\d+)/.exec(request.headers.get('cookie') ?? '')?.[1];
    if (!customer) return new Response('Who are you?', { status: 401 });
    const { id, nonce } = (await request.json()) as { id: string; nonce: string };
    const { pathname } = new URL(request.url);
    if (pathname === '/cards') return keepCard(customer, id);
    if (pathname === '/enter') return letIn(customer, nonce);
    if (pathname === '/pay') return pay(id);
    return new Response('', { status: 404 });
  },
});
process.on('disconnect', () => process.exit(0));
process.send?.(`http://127.0.0.1:${server.port}`);

export {};
