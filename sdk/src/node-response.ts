/** An answer of Express: held back until it is known what may be shown of it. */
import { type AnswerOptions, fateOf, leftOf, notInPart, ofTheWhole, type Refusal } from './answer.ts';
import type { Decision } from './api.ts';

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

export function sendRefusal(response: ExpressResponse, { status, problem, headers }: Refusal): void {
  response.statusCode = status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.end(JSON.stringify(problem));
}

/** Takes over every way to send something; the first thing sent decides, and gives them back. */
export function holdBack(response: ExpressResponse, decision: Decision, options: AnswerOptions): void {
  const own = {
    writeHead: response.writeHead.bind(response),
    write: response.write.bind(response),
    end: response.end.bind(response),
    send: response.send.bind(response),
    flushHeaders: response.flushHeaders.bind(response),
  };
  const held: Uint8Array[] = [];

  function fate() {
    const type = response.getHeader('Content-Type');
    return fateOf({ status: response.statusCode, type: type ? String(type) : undefined }, decision, options);
  }
  function release(): void {
    Object.assign(response, own);
  }
  function strip(...names: string[]): void {
    for (const name of names) response.removeHeader(name);
  }

  /** Whatever a stream goes on to write is swallowed. */
  function refuse(): void {
    release();
    strip(...ofTheWhole, 'Content-Encoding', 'Content-Disposition', 'Content-Range', 'Last-Modified');
    sendRefusal(response, notInPart);
    Object.assign(response, {
      write: (...given: unknown[]) => done(given, true),
      end: (...given: unknown[]) => done(given, response),
    });
  }

  /** Sends what is left of the text in the way that is given. */
  function sendLeft(bytes: Uint8Array, send: (left: string) => unknown): unknown {
    const left = leftOf(new TextDecoder().decode(bytes), decision, options);
    if (left === undefined) {
      refuse();
      return response;
    }
    release();
    strip(...ofTheWhole);
    return send(left);
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
      if (!text && !(body instanceof Uint8Array)) return own.send(body);
      const found = fate();
      if (found === 'filter') return sendLeft(text ? Buffer.from(body) : body, own.send);
      if (found === 'pass') release();
      else refuse();
      return found === 'pass' ? own.send(body) : response;
    },
    write: (...given: unknown[]) => {
      const found = fate();
      if (found === 'filter') {
        held.push(Buffer.from(given[0], encodingOf(given)));
        return done(given, true);
      }
      if (found === 'refuse') {
        refuse();
        return done(given, true);
      }
      release();
      return response.write(given[0], given[1], given[2]);
    },
    end: (...given: unknown[]) => {
      const [last] = given;
      const more = typeof last === 'string' || last instanceof Uint8Array;
      if (more && last.length > 0) held.push(Buffer.from(last, encodingOf(given)));
      const found = held.length > 0 ? fate() : 'pass';
      if (found === 'filter') {
        sendLeft(Buffer.concat(held), own.end);
        return done(given, response);
      }
      if (found === 'refuse') {
        refuse();
        return done(given, response);
      }
      release();
      return own.end(...(given as []));
    },
  });
}

function encodingOf([, encoding]: unknown[]): unknown {
  return typeof encoding === 'string' ? encoding : undefined;
}

/** Tells whoever waits for it that their chunk was taken. */
function done<T>(given: unknown[], result: T): T {
  const callback = given.find((one) => typeof one === 'function');
  if (callback) queueMicrotask(callback as () => void);
  return result;
}

/** Behind the status of `writeHead`: perhaps a reason, then an object, or names and values in turn. */
function headersOf(rest: unknown[]): [name: string, value: string][] {
  const headers = rest.find((one) => typeof one === 'object' && one !== null);
  if (!headers) return [];
  if (!Array.isArray(headers)) return Object.entries(headers as Record<string, string>);
  const flat = headers.flat() as string[];
  return flat.flatMap((name, at) =>
    at % 2 === 0 ? [[name, flat[at + 1] as string] as [string, string]] : [],
  );
}
