/** The shop's backend: it has the private key, identifies customers by a cookie and authorizes their sessions. */
const { SALLYPORT, PRIVATE_KEY } = process.env as { SALLYPORT: string; PRIVATE_KEY: string };

function sallyport(method: string, path: string, body?: object): Promise<Response> {
  const headers = { 'SVC-API-KEY': PRIVATE_KEY, 'Content-Type': 'application/json' };
  return fetch(SALLYPORT + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
}

/** Moves a card from the page's container to the customer's. */
function saveCard(customer: string, id: string): Promise<Response> {
  return sallyport('PATCH', `/tokens/${id}`, { container: `/customers/${customer}/` });
}

function authorizeSession(customer: string, nonce: string): Promise<Response> {
  const rule = {
    description: `cards of customer ${customer}`,
    priority: 1,
    transform: 'mask',
    permissions: ['token:read'],
    conditions: [{ attribute: 'container', operator: 'starts_with', value: `/customers/${customer}/` }],
  };
  return sallyport('POST', '/sessions/authorize', { nonce, rules: [rule] });
}

/** Returns only whether the full card number was readable. */
async function pay(id: string): Promise<Response> {
  const { data } = (await (await sallyport('GET', `/tokens/${id}`)).json()) as { data?: { number?: string } };
  return Response.json({ charged: /^\d{16}$/.test(data?.number ?? '') });
}

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: async (request) => {
    const customer = /customer=(\d+)/.exec(request.headers.get('cookie') ?? '')?.[1];
    if (!customer) return new Response('', { status: 401 });
    const { id, nonce } = (await request.json()) as { id: string; nonce: string };
    const { pathname } = new URL(request.url);
    if (pathname === '/cards') return saveCard(customer, id);
    if (pathname === '/session') return authorizeSession(customer, nonce);
    if (pathname === '/pay') return pay(id);
    return new Response('', { status: 404 });
  },
});
process.on('disconnect', () => process.exit(0));
process.send?.(`http://127.0.0.1:${server.port}`);

export {};
