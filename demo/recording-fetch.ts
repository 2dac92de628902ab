/** A `fetch` that reports requests and responses for the page to draw, with secrets shortened. */

export type Party = 'browser' | 'backend' | 'sallyport' | 'payments';

export interface RecordedRequest {
  readonly id: string;
  readonly from: Party;
  readonly to: Party;
  readonly at: number;
  readonly method: string;
  readonly path: string;
  /** The shortened key from the `SVC-API-KEY` header. */
  readonly key?: string;
  readonly body?: unknown;
  /** Undefined until the response arrives. */
  readonly response?: { readonly status: number; readonly body?: unknown; readonly took: number };
}

const secret = /slp_([a-z]{3})_([0-9A-Za-z]{4})[0-9A-Za-z]{47}([0-9A-Za-z]{4})/g;

export function shortenSecrets(text: string): string {
  return text.replace(secret, 'slp_$1_$2…$3');
}

type Fetch = typeof globalThis.fetch;

/** Calls `report` when a request is sent and again when its response arrives. */
export function recordingFetch(from: Party, to: Party, report: (exchange: RecordedRequest) => void): Fetch {
  const send = async (input: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(String(input), globalThis.location?.href);
    const headers = new Headers(init.headers);
    const key = headers.get('SVC-API-KEY');
    const sent: RecordedRequest = {
      id: crypto.randomUUID(),
      from,
      to,
      at: Date.now(),
      method: init.method ?? 'GET',
      path: url.pathname,
      ...(key && { key: shortenSecrets(key) }),
      ...(typeof init.body === 'string' && { body: parseShortened(init.body) }),
    };
    report(sent);
    const response = await fetch(input, init);
    const text = await response.clone().text();
    const took = Date.now() - sent.at;
    report({
      ...sent,
      response: { status: response.status, took, ...(text && { body: parseShortened(text) }) },
    });
    return response;
  };
  return send as Fetch;
}

function parseShortened(json: string): unknown {
  return JSON.parse(shortenSecrets(json));
}
