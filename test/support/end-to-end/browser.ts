/** A customer's browser, with the page's public key and a cookie of the shop. Runs the steps its parent sends. */
const { SALLYPORT, SHOP, PUBLIC_KEY, CUSTOMER } = process.env as Record<string, string>;

interface Session {
  readonly session_key: string;
  readonly nonce: string;
  readonly expires_at: string;
}
let session: Session | undefined;

interface Result {
  readonly status: number;
  readonly body: unknown;
}

async function resultOf(response: Response): Promise<Result> {
  const text = await response.text();
  return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : text };
}

async function sallyport(key: string | undefined, method: string, path: string, body?: object) {
  const headers = { 'SVC-API-KEY': key ?? '', 'Content-Type': 'application/json', Origin: SHOP as string };
  return resultOf(
    await fetch(SALLYPORT + path, { method, headers, ...(body && { body: JSON.stringify(body) }) }),
  );
}

async function shop(path: string, body: object) {
  const headers = { Cookie: `customer=${CUSTOMER}`, 'Content-Type': 'application/json' };
  return resultOf(await fetch(SHOP + path, { method: 'POST', headers, body: JSON.stringify(body) }));
}

const steps: Record<string, (argument: string) => Promise<Result>> = {
  /** Sends the card to Sallyport. The shop gets only its id. */
  storeCard: (number) =>
    sallyport(PUBLIC_KEY, 'POST', '/tokens', {
      type: 'card',
      container: '/incoming/',
      data: { number, holder: 'Ada Lovelace' },
      mask: { number: '{{ data.number | reveal_last: 4 }}' },
    }),
  saveCard: (id) => shop('/cards', { id }),
  createSession: async () => {
    const { status, body } = await sallyport(PUBLIC_KEY, 'POST', '/sessions');
    session = body as Session;
    return { status, body: { expires_at: session.expires_at } };
  },
  authorizeSession: () => shop('/session', { nonce: session?.nonce }),
  readCard: (id) => sallyport(session?.session_key, 'GET', `/tokens/${id}`),
  listCards: () => sallyport(session?.session_key, 'GET', '/tokens'),
  readWithPublicKey: (id) => sallyport(PUBLIC_KEY, 'GET', `/tokens/${id}`),
  pay: (id) => shop('/pay', { id }),
};

process.on('message', async ([step, argument]: [string, string]) => {
  process.send?.(await steps[step]?.(argument));
});
process.on('disconnect', () => process.exit(0));
process.send?.('ready');

export {};
