/** Checks that run only in tests: an endpoint returns only replies and errors that it declares. */
import { isDeepStrictEqual } from 'node:util';
import { Failure } from '../../domain/error.ts';
import { JsonText } from '../../domain/json-text.ts';
import { failuresOf, type Reply, type Route } from './route.ts';

/**
 * Throws if the reply has an undeclared status or field, or lacks a declared header. Parsing with the schema removes
 * undeclared fields.
 */
export function checkReply(route: Route, reply: Reply): void {
  const declared = route.replies[reply.status];
  if (reply.headers?.ETag !== undefined && !route.sendsEtag)
    throw new Error(`${route.name} returned an ETag that it does not declare`);
  for (const name of declared?.headers ?? [])
    if (reply.headers?.[name] === undefined)
      throw new Error(`${route.name} returned ${reply.status} without ${name}`);
  if (declared && !declared.schema) return;
  const body = reply.body instanceof JsonText ? reply.body.value() : reply.body;
  const parsed = declared?.schema?.parse(body);
  if (declared && isDeepStrictEqual(asJson(body), asJson(parsed))) return;
  throw new Error(`${route.name} returned ${reply.status} with a body that it does not declare`);
}

/** Returns the error, or an internal error if the route does not declare its code. */
export function checkFailure(route: Route, error: unknown): unknown {
  if (!(error instanceof Failure) || failuresOf(route).includes(error.code)) return error;
  return new Error(`${route.name} failed with ${error.code}, which it does not declare`);
}

function asJson(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
