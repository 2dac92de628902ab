/**
 * A customer's browser. All it has is the public key in the page, a cookie for the shop, and whatever it is
 * handed along the way. It does what its parent process tells it, and reports what it got.
 */
const { SALLYPORT, SHOP, PUBLIC_KEY, CUSTOMER } = process.env as Record<string, string>;

interface Session {
  readonly session_key: string;
  readonly nonce: string;
  readonly expires_at: string;
}
let session: Session | undefined;

async function seen(response: Response): Promise<{ status: number; body: unknown }> {
  const text = await response.text();
  return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : text };
}

async function sallyport(key: string | undefined, method: string, path: string, body?: object) {
  const headers = { 'SVC-API-KEY': key ?? '', 'Content-Type': 'application/json', Origin: SHOP as string };
  return seen(
    await fetch(SALLYPORT + path, { method, headers, ...(body && { body: JSON.stringify(body) }) }),
  );
}

async function shop(path: string, body: object) {
  const headers = { Cookie: `customer=${CUSTOMER}`, 'Content-Type': 'application/json' };
  return seen(await fetch(SHOP + path, { method: 'POST', headers, body: JSON.stringify(body) }));
}

const steps: Record<string, (id: string) => Promise<{ status: number; body: unknown }>> = {
  /** The card goes straight to Sallyport; the shop gets to know its id alone. */
  collect: async (number) =>
    sallyport(PUBLIC_KEY, 'POST', '/tokens', {
      type: 'card',
      container: '/incoming/',
      data: { number, holder: 'Ada Lovelace' },
      mask: { number: '{{ data.number | reveal_last: 4 }}' },
    }),
  keep: (id) => shop('/cards', { id }),
  open: async () => {
    const answer = await sallyport(PUBLIC_KEY, 'POST', '/sessions');
    session = answer.body as Session;
    return { status: answer.status, body: { expires_at: session.expires_at } };
  },
  enter: () => shop('/enter', { nonce: session?.nonce }),
  look: (id) => sallyport(session?.session_key, 'GET', `/tokens/${id}`),
  list: () => sallyport(session?.session_key, 'GET', '/tokens'),
  peek: (id) => sallyport(PUBLIC_KEY, 'GET', `/tokens/${id}`),
  pay: (id) => shop('/pay', { id }),
};

process.on('message', async ([step, id]: [keyof typeof steps, string]) => {
  process.send?.(await steps[step]?.(id));
});
process.on('disconnect', () => process.exit(0));
process.send?.('ready');

export {};
