/** One request and its answer, as the page shows it: recorded where it is sent, with secrets shortened. */

export type Party = 'browser' | 'backend' | 'vault';

export interface Exchange {
  readonly id: string;
  readonly from: Party;
  readonly to: Party;
  readonly at: number;
  readonly method: string;
  readonly path: string;
  /** The key that it was sent with. */
  readonly key?: string;
  readonly body?: unknown;
  /** Once there is one. */
  readonly answer?: { readonly status: number; readonly body?: unknown; readonly took: number };
}

const secret = /slp_([a-z]{3})_([0-9A-Za-z]{4})[0-9A-Za-z]{41}([0-9A-Za-z]{4})/g;

export function shortened(text: string): string {
  return text.replace(secret, 'slp_$1_$2…$3');
}

type Fetch = typeof globalThis.fetch;

/** A `fetch` that tells of each request when it is sent, and again when it is answered. */
export function recording(from: Party, to: Party, tell: (exchange: Exchange) => void): Fetch {
  const send = async (input: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(String(input), globalThis.location?.href);
    const headers = new Headers(init.headers);
    const key = headers.get('SVC-API-KEY');
    const sent: Exchange = {
      id: crypto.randomUUID(),
      from,
      to,
      at: Date.now(),
      method: init.method ?? 'GET',
      path: url.pathname,
      ...(key && { key: shortened(key) }),
      ...(typeof init.body === 'string' && { body: shown(init.body) }),
    };
    tell(sent);
    const response = await fetch(input, init);
    const text = await response.clone().text();
    const took = Date.now() - sent.at;
    tell({ ...sent, answer: { status: response.status, took, ...(text && { body: shown(text) }) } });
    return response;
  };
  return send as Fetch;
}

function shown(json: string): unknown {
  return JSON.parse(shortened(json));
}
