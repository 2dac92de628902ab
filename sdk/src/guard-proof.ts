/** Reads the DPoP proof of a request, to send it with `POST /decisions`. */
import type { DecisionRequest } from './api.ts';
import { randomId } from './transport.ts';

interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly url?: string | undefined;
  readonly original?: unknown;
  header(name: string): string | undefined;
}

/** Undefined if the request has no proof, or its URL is unknown. */
export function proofOf(
  request: ReceivedRequest,
  publicUrl: string | URL | undefined,
): DecisionRequest['proof'] {
  const jwt = request.header('dpop');
  const { method, path } = request;
  const url = publicUrl === undefined ? request.url : String(publicUrl).replace(/\/+$/, '') + path;
  if (jwt === undefined || url === undefined) return undefined;
  return { jwt, method, url, request: proofIdOf(request) };
}

const proofIds = new WeakMap<object, string>();

/** All guards of a request send the same id. With another id, the service would reject the proof as already used. */
function proofIdOf(request: ReceivedRequest): string {
  const { original } = request;
  const source = typeof original === 'object' && original !== null ? original : request;
  const id = proofIds.get(source) ?? randomId();
  proofIds.set(source, id);
  return id;
}
