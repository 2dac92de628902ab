/** A client with a bound session on a test server. */
import { type ProofOptions, Prover } from './dpop.ts';
import type { ApiResponse, CallOptions, TestServer } from './test-server.ts';

type Server = Pick<TestServer, 'url' | 'call'>;

export interface ProvenOptions extends CallOptions {
  /** Replaces the proof, or parts of it. Null sends none. */
  readonly proof?: string | Partial<ProofOptions> | null;
}

export class BoundClient {
  readonly prover: Prover;
  readonly key: string;
  /** The last DPoP nonce that the service sent. */
  nonce: string;
  readonly #server: Server;

  constructor(server: Server, prover: Prover, key: string, nonce: string) {
    this.#server = server;
    this.prover = prover;
    this.key = key;
    this.nonce = nonce;
  }

  /** The same client on another node. */
  at(server: Server): BoundClient {
    return new BoundClient(server, this.prover, this.key, this.nonce);
  }

  proof(method: string, path: string, changes: Partial<ProofOptions> = {}): string {
    const [url] = (this.#server.url + path).split('?');
    return this.prover.proof({ method, url: url as string, key: this.key, nonce: this.nonce, ...changes });
  }

  async call(
    method: string,
    path: string,
    { proof, headers, ...rest }: ProvenOptions = {},
  ): Promise<ApiResponse> {
    const jwt = typeof proof === 'string' ? proof : proof !== null && this.proof(method, path, proof);
    return this.#server.call(method, path, {
      key: this.key,
      ...rest,
      headers: { ...(jwt !== false && { DPoP: jwt }), ...headers },
    });
  }
}

/** Creates a bound session. Authorizes it if there are grants. */
export async function openBound(
  server: Server,
  publicKey: string,
  grant?: { key: string; permissions: string[] },
  prover = new Prover(),
): Promise<BoundClient> {
  const headers = { DPoP: prover.proof({ method: 'POST', url: `${server.url}/sessions` }) };
  const created = await server.call('POST', '/sessions', { key: publicKey, headers });
  if (created.status !== 201) throw new Error(`not created: ${JSON.stringify(created.body)}`);
  if (grant) {
    const { key, permissions } = grant;
    const body = { nonce: created.body.nonce, permissions };
    const authorized = await server.call('POST', '/sessions/authorize', { key, body });
    if (authorized.status !== 204) throw new Error(`not authorized: ${JSON.stringify(authorized.body)}`);
  }
  return new BoundClient(
    server,
    prover,
    created.body.session_key,
    created.headers.get('dpop-nonce') as string,
  );
}

/** The parts of a response that concern proofs. */
export function challengeOf({ status, headers }: ApiResponse): [number, string | null] {
  return [status, headers.get('www-authenticate')];
}

export const invalidProof: [number, string] = [401, 'DPoP error="invalid_dpop_proof"'];
export const useNonce: [number, string] = [401, 'DPoP error="use_dpop_nonce"'];
