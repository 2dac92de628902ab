/** A TLS server that speaks like several providers of APIs, for tests that run their own libraries. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createCertificates } from './certificates.ts';

/** The key that the provider knows, in `authorization` or `x-api-key`. */
export const providerKey = 'sk_provider_4Dk2Lw9';
/** What its models say, a word for each event of a stream. */
export const words = ['The', ' gate', ' has', ' two', ' doors.'];
export const audio = Uint8Array.from({ length: 3000 }, (_, at) => at % 251);

export interface ProviderRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

type Answer = (response: ServerResponse, request: ProviderRequest) => unknown;

export interface Provider {
  readonly origin: string;
  readonly ca: string;
  readonly received: ProviderRequest[];
  /** How the next requests are answered. Undefined: like the provider. */
  answer: Answer | undefined;
  close(): Promise<void>;
}

export async function openProvider(): Promise<Provider> {
  const folder = mkdtempSync(join(tmpdir(), 'provider-'));
  const { authority, server: pair } = createCertificates(folder, 'client');
  const [ca, cert, key] = [authority, pair.certificate, pair.key].map((file) => readFileSync(file, 'utf8'));
  rmSync(folder, { recursive: true });
  const provider = { received: [] as ProviderRequest[], answer: undefined as Answer | undefined };
  const server: Server = createServer({ cert, key }, async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method = '', url = '', headers } = request;
    const received = { method, path: url, headers, body: Buffer.concat(chunks) };
    provider.received.push(received);
    (provider.answer ?? answerLikeProvider)(response, received);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  return Object.assign(provider, {
    origin: `https://localhost:${port}`,
    ca: ca as string,
    close: async () => {
      server.closeAllConnections();
      await new Promise<void>((closed) => server.close(() => closed()));
    },
  });
}

function answerLikeProvider(response: ServerResponse, request: ProviderRequest): unknown {
  const { authorization, 'x-api-key': apiKey } = request.headers;
  if (authorization !== `Bearer ${providerKey}` && apiKey !== providerKey)
    return json(response, { error: { type: 'invalid_key', message: 'unknown key' } }, 401);
  const route = `${request.method} ${request.path.replace(/\?.*/, '')}`;
  const answer = answers[route];
  if (!answer) return json(response, { error: { type: 'not_found', message: route } }, 404);
  return answer(response, request);
}

const answers: Readonly<Record<string, Answer>> = {
  'POST /v1/charges': (response, { body }) => {
    const form = new URLSearchParams(body.toString());
    if (form.get('amount') === '402')
      return json(
        response,
        { error: { type: 'card_error', code: 'card_declined', message: 'Declined.' } },
        402,
      );
    json(response, { id: 'ch_1', object: 'charge', status: 'succeeded', amount: Number(form.get('amount')) });
  },
  'POST /v1/payment_methods': (response, { body }) => {
    const number = new URLSearchParams(body.toString()).get('card[number]') ?? '';
    json(response, { id: 'pm_1', object: 'payment_method', card: { last4: number.slice(-4), number } });
  },
  'POST /v1/chat/completions': (response, { body }) => {
    const head = { id: 'chatcmpl-1', model: 'gate-1', created: 1 };
    const { stream } = JSON.parse(body.toString());
    const message = { role: 'assistant', content: words.join('') };
    if (!stream)
      return json(response, {
        ...head,
        object: 'chat.completion',
        choices: [{ index: 0, message, finish_reason: 'stop' }],
      });
    const chunks = words.map((content) => ({
      ...head,
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta: { content } }],
    }));
    events(
      response,
      [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'].map((data) => `data: ${data}\n\n`),
    );
  },
  'POST /v1/audio/speech': (response) =>
    void response.writeHead(200, { 'Content-Type': 'audio/mpeg' }).end(audio),
  'POST /v1/files': (response, { body }) =>
    json(response, { id: 'file-1', object: 'file', bytes: body.length }),
  'POST /v1/messages': (response, { body }) => {
    const message = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'gate-1',
      usage: { input_tokens: 1, output_tokens: 1 },
    };
    const { stream } = JSON.parse(body.toString());
    if (!stream)
      return json(response, {
        ...message,
        stop_reason: 'end_turn',
        content: [{ type: 'text', text: words.join('') }],
      });
    const parts = [
      { type: 'message_start', message: { ...message, content: [] } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      ...words.map((text) => ({
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'text_delta', text },
      })),
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5 } },
      { type: 'message_stop' },
    ];
    events(
      response,
      parts.map((part) => `event: ${part.type}\ndata: ${JSON.stringify(part)}\n\n`),
    );
  },
  'POST /repos/acme/gate/issues/7/comments': (response, { body }) =>
    json(response, { id: 1, body: JSON.parse(body.toString()).body }, 201),
  'POST /drive/v3/files': (response, { body }) =>
    json(response, { id: 'f1', ...JSON.parse(body.toString()) }),
};

export function json(response: ServerResponse, body: unknown, status = 200): unknown {
  return response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}

/** Sends each event in a write of its own. */
function events(response: ServerResponse, all: readonly string[]): void {
  response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' });
  const next = (at: number) => {
    if (at === all.length) response.end();
    else response.write(all[at] as string, () => setImmediate(next, at + 1));
  };
  next(0);
}
