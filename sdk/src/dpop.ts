/** DPoP proofs (RFC 9449): a signature for each request, by a key that cannot leave the browser. */
import { SallyportError } from './errors.ts';

/** Whether sessions are bound by default: in browsers, if the page is a secure context (HTTPS or localhost). */
export function bindsByDefault(): boolean {
  return globalThis.isSecureContext === true && globalThis.crypto?.subtle !== undefined;
}

export class ProofKey {
  readonly #privateKey: CryptoKey;
  readonly #header: string;
  /** The latest DPoP nonce. Guards pass on nonces of Sallyport, so all services accept the same one. */
  #nonce: string | undefined;

  private constructor(privateKey: CryptoKey, header: string) {
    this.#privateKey = privateKey;
    this.#header = header;
  }

  /** Generates a key pair whose private key cannot be exported. */
  static async generate(): Promise<ProofKey> {
    const subtle = globalThis.crypto?.subtle;
    if (!subtle) throw new SallyportError('a bound session needs WebCrypto: load the page over HTTPS');
    const algorithm = { name: 'ECDSA', namedCurve: 'P-256' };
    const { privateKey, publicKey } = await subtle.generateKey(algorithm, false, ['sign', 'verify']);
    const { kty, crv, x, y } = await subtle.exportKey('jwk', publicKey);
    return new ProofKey(privateKey, encodeJson({ typ: 'dpop+jwt', alg: 'ES256', jwk: { kty, crv, x, y } }));
  }

  /** Signs a proof for one request. Without a session key, the proof is for `POST /sessions`, which needs no nonce. */
  async sign(method: string, url: string, sessionKey?: string): Promise<string> {
    const payload = encodeJson({
      htm: method,
      htu: withoutQuery(url),
      iat: Math.floor(Date.now() / 1000),
      jti: encode(globalThis.crypto.getRandomValues(new Uint8Array(16))),
      ...(sessionKey !== undefined && { ath: await hash(sessionKey), nonce: this.#nonce }),
    });
    const text = `${this.#header}.${payload}`;
    const algorithm = { name: 'ECDSA', hash: 'SHA-256' };
    const signature = await globalThis.crypto.subtle.sign(algorithm, this.#privateKey, utf8(text));
    return `${text}.${encode(new Uint8Array(signature))}`;
  }

  /**
   * Sends a request with a proof, and remembers the nonce of the response. If the proof was not accepted, sends the
   * request once more with a new one.
   */
  async send(attempt: (proof: string) => Promise<Response>, sign: () => Promise<string>): Promise<Response> {
    const once = async () => {
      const response = await attempt(await sign());
      this.#nonce = response.headers.get('DPoP-Nonce') ?? this.#nonce;
      return response;
    };
    const response = await once();
    return isProofChallenge(response) ? once() : response;
  }
}

/** Whether the service asks for another proof. Otherwise a 401 means that the key is invalid. */
export function isProofChallenge({ status, headers }: Response): boolean {
  return status === 401 && /^DPoP\b/i.test(headers.get('WWW-Authenticate') ?? '');
}

function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url, globalThis.location?.href);
  return origin + pathname;
}

async function hash(text: string): Promise<string> {
  return encode(new Uint8Array(await globalThis.crypto.subtle.digest('SHA-256', utf8(text))));
}

function utf8(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function encodeJson(value: object): string {
  return encode(utf8(JSON.stringify(value)));
}

/** Base64url without padding. */
function encode(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}
