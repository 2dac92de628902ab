/** Buffers and filters an Express response. */

import type { Decision } from './api.ts';
import {
  bodyHeaders,
  cannotFilter,
  type Denial,
  type FilterOptions,
  filterAction,
  filterJson,
} from './response-filter.ts';

declare const Buffer: {
  from(text: unknown, encoding?: unknown): Uint8Array;
  concat(chunks: readonly Uint8Array[]): Uint8Array;
};

export interface ExpressResponse {
  statusCode: number;
  locals: Record<string, unknown>;
  getHeader(name: string): unknown;
  setHeader(name: string, value: string | number | readonly string[]): unknown;
  removeHeader(name: string): void;
  flushHeaders(): void;
  writeHead(status: number, reason?: unknown, headers?: unknown): unknown;
  write(chunk: unknown, encoding?: unknown, callback?: unknown): boolean;
  end(chunk?: unknown, encoding?: unknown, callback?: unknown): unknown;
  send(body?: unknown): unknown;
}

export function sendDenial(response: ExpressResponse, { status, problem, headers }: Denial): void {
  response.statusCode = status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.end(JSON.stringify(problem));
}

/** Prepares the response to an allowed request: its handler may send it, and the decision filters it. */
export function allowResponse(
  response: ExpressResponse,
  allowed: { readonly decision: Decision; readonly requestId: string },
  options: FilterOptions,
  next: (error: unknown) => void,
): void {
  const { decision } = allowed;
  response.locals.decision = decision;
  if (!response.getHeader('Cache-Control')) response.setHeader('Cache-Control', 'no-store');
  if (decision.dpop) response.setHeader('DPoP-Nonce', decision.dpop.nonce);
  interceptResponse(response, allowed, options, next);
}

/** Headers that describe the original body. They are removed if an error is sent instead of that body. */
const contentHeaders = [
  'Content-Type',
  'Content-Encoding',
  'Content-Disposition',
  'Content-Range',
  'Last-Modified',
];
const failed = Symbol('filter failed');

/**
 * Replaces the methods that send data. A JSON body is buffered until the end and then filtered. Any other body is
 * passed on or denied at the first call. Restores the original methods when it sends the response.
 */
function interceptResponse(
  response: ExpressResponse,
  { decision, requestId }: { readonly decision: Decision; readonly requestId: string },
  options: FilterOptions,
  next: (error: unknown) => void,
): void {
  const original = {
    writeHead: response.writeHead.bind(response),
    write: response.write.bind(response),
    end: response.end.bind(response),
    send: response.send.bind(response),
    flushHeaders: response.flushHeaders.bind(response),
  };
  const buffered: Uint8Array[] = [];

  function action() {
    const type = response.getHeader('Content-Type');
    return filterAction(
      { status: response.statusCode, type: type ? String(type) : undefined },
      decision,
      options,
    );
  }
  function restore(): void {
    Object.assign(response, original);
  }
  function strip(...names: string[]): void {
    for (const name of names) response.removeHeader(name);
  }

  /** Sends the denial and ignores further writes. */
  function deny(): void {
    restore();
    strip(...bodyHeaders, ...contentHeaders);
    sendDenial(response, cannotFilter(requestId));
    Object.assign(response, {
      write: (...args: unknown[]) => callBack(args, true),
      end: (...args: unknown[]) => callBack(args, response),
    });
  }

  /**
   * Passes an error of the `mask` function to the error handler of Express. Thrown here, it would end the process,
   * because streams and async handlers call `end` and `send` outside of Express.
   */
  function filterOrFail(text: string): string | undefined | typeof failed {
    try {
      return filterJson(text, decision, options);
    } catch (error) {
      restore();
      strip(...bodyHeaders, ...contentHeaders);
      next(error);
      return failed;
    }
  }

  /** Filters the body and sends it with `send`. */
  function sendFiltered(bytes: Uint8Array, send: (text: string) => unknown): unknown {
    const filtered = filterOrFail(new TextDecoder().decode(bytes));
    if (filtered === failed) return response;
    if (filtered === undefined) {
      deny();
      return response;
    }
    restore();
    strip(...bodyHeaders);
    return send(filtered);
  }

  Object.assign(response, {
    flushHeaders: () => {},
    writeHead: (status: number, ...rest: unknown[]) => {
      response.statusCode = status;
      for (const [name, value] of headersOf(rest)) response.setHeader(name, value);
      return response;
    },
    send: (body?: unknown) => {
      const text = typeof body === 'string';
      if (!text && !(body instanceof Uint8Array)) return original.send(body);
      const chosen = action();
      if (chosen === 'filter') return sendFiltered(text ? Buffer.from(body) : body, original.send);
      if (chosen === 'pass') restore();
      else deny();
      return chosen === 'pass' ? original.send(body) : response;
    },
    write: (...args: unknown[]) => {
      const chosen = action();
      if (chosen === 'filter') {
        buffered.push(Buffer.from(args[0], encodingOf(args)));
        return callBack(args, true);
      }
      if (chosen === 'deny') {
        deny();
        return callBack(args, true);
      }
      restore();
      return response.write(args[0], args[1], args[2]);
    },
    end: (...args: unknown[]) => {
      const [last] = args;
      const hasData = typeof last === 'string' || last instanceof Uint8Array;
      if (hasData && last.length > 0) buffered.push(Buffer.from(last, encodingOf(args)));
      const chosen = buffered.length > 0 ? action() : 'pass';
      if (chosen === 'filter') {
        sendFiltered(Buffer.concat(buffered), original.end);
        return callBack(args, response);
      }
      if (chosen === 'deny') {
        deny();
        return callBack(args, response);
      }
      restore();
      return original.end(...(args as []));
    },
  });
}

function encodingOf([, encoding]: unknown[]): unknown {
  return typeof encoding === 'string' ? encoding : undefined;
}

/** Calls the write callback, if one was passed. */
function callBack<T>(args: unknown[], result: T): T {
  const callback = args.find((one) => typeof one === 'function');
  if (callback) queueMicrotask(callback as () => void);
  return result;
}

/** The headers of `writeHead`, which follow an optional reason: an object, or a flat list of names and values. */
function headersOf(rest: unknown[]): [name: string, value: string][] {
  const headers = rest.find((one) => typeof one === 'object' && one !== null);
  if (!headers) return [];
  if (!Array.isArray(headers)) return Object.entries(headers as Record<string, string>);
  const flat = headers.flat() as string[];
  return flat.flatMap((name, at) =>
    at % 2 === 0 ? [[name, flat[at + 1] as string] as [string, string]] : [],
  );
}
