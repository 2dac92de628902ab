/** Sends a checked request to its destination, and replies with the listed parts of its reply, or with a stream. */
import { type Destination, type DestinationRequest, streamed } from '../../domain/destination.ts';
import { echoes } from '../../domain/echoes.ts';
import { type Failure, fail } from '../../domain/error.ts';
import { jsonLimitError } from '../../domain/json-limits.ts';
import { type FilledRequest, selectParts } from '../../domain/placeholders.ts';
import { inTurns, type Reserve, type Steps } from '../../domain/steps.ts';
import type { OutboundReply, OutboundRequest } from '../../outbound/http-connection.ts';
import type { RequestInfo } from '../pipeline/request-info.ts';
import type { Reply } from '../pipeline/route.ts';
import { streamReply } from './proxy-stream.ts';
import { afterSending, destinationHeader, finish, type Sending } from './proxy-use.ts';

const maxBody = 1_048_576;
/** Bytes of memory per byte of a reply: what arrived, its text, its value, and the response. */
const replyCost = 4;
/** Bytes of memory that are reserved before a request is sent. Larger replies reserve more when they arrive. */
const usualReply = 131_072;
/** Bytes that a stream holds at a time: what arrived together, its copy for the client, and what is held back. */
const streamBytes = 262_144;

const wantsBody = (reply: readonly string[]) => reply.some((part) => !part.startsWith('header:'));

/** Bytes of memory for the reply, as long as it is not larger than usual. */
export function replyBytes({ reply }: DestinationRequest): number {
  if (reply === streamed) return streamBytes;
  return wantsBody(reply) ? usualReply : 0;
}

export async function sendUse(sending: Sending): Promise<Reply> {
  const { call, use, lease, context } = sending;
  const { destination, listed, filled, secrets, hidden } = use;
  const added = Object.entries(secrets.headers).map(([name, value]) => [name, value.reveal()] as const);
  const headers = outboundHeaders(call.request, call.requestInfo, destination, listed, filled);
  const request = {
    method: listed.method,
    path: filled.path,
    headers: { ...headers, ...filled.headers, ...Object.fromEntries(added) },
    body: filled.body,
  };
  const { reply } = listed;
  if (reply === streamed) return streamReply(sending, request);
  let status: number | undefined;
  let failure: Failure | undefined;
  try {
    const received = await exchange(sending, request, reply).finally(lease.release);
    ({ status } = received);
    const selected = await replyFrom(
      received,
      reply,
      hidden,
      destination.name,
      context.memory.reserverFor(call),
    );
    if (sending.watched.hasEchoed) throw fail('destination_echoed_data', { sent: true, expected: true });
    return selected;
  } catch (error) {
    failure = afterSending(error);
    throw failure;
  } finally {
    await finish(sending, status, failure?.code);
  }
}

/** The headers of the request to the destination, apart from those of the caller that are listed. */
function outboundHeaders(
  request: Request | undefined,
  { requestId }: Pick<RequestInfo, 'requestId'>,
  { origin }: Destination,
  { body: kind, reply }: DestinationRequest,
  { body }: FilledRequest,
): Record<string, string> {
  const given = (name: string) => request?.headers.get(name) ?? undefined;
  const idempotencyKey = given('idempotency-key');
  const contentType = given('content-type');
  const type = kind === 'any' ? contentType : contentType?.split(';')[0]?.trim().toLowerCase();
  const encoding = kind === 'any' ? given('content-encoding') : undefined;
  return {
    host: origin.slice('https://'.length),
    accept: reply === streamed ? '*/*' : 'application/json',
    'accept-encoding': 'identity',
    'user-agent': 'sallyport',
    'svc-request-id': requestId,
    ...(idempotencyKey && { 'idempotency-key': idempotencyKey }),
    ...(body !== undefined && type && { 'content-type': type }),
    ...(body !== undefined && encoding && { 'content-encoding': encoding }),
    ...(request?.method !== 'GET' && { 'content-length': String(Buffer.byteLength(body ?? '')) }),
  };
}

function exchange(
  { call, use: { listed }, lease, context }: Sending,
  request: OutboundRequest,
  reply: readonly string[],
): Promise<OutboundReply> {
  const more = context.memory.reserverFor(call);
  let reserved = replyBytes(listed);
  const reserve = (bytes: number) => {
    reserved -= replyCost * bytes;
    if (reserved < 0) more(-reserved);
    reserved = Math.max(0, reserved);
  };
  return lease.exchange(request, wantsBody(reply) ? { bytes: maxBody, reserve } : undefined);
}

/** The listed parts of the reply. Throws `destination_echoed_data` if they contain hidden texts. */
async function replyFrom(
  { status, headers, body }: OutboundReply,
  reply: readonly string[],
  hidden: readonly string[],
  destination: string,
  reserve: Reserve,
): Promise<Reply> {
  const names = reply
    .filter((part) => part.startsWith('header:'))
    .map((part) => part.slice('header:'.length));
  const passed = names.flatMap((name) =>
    headers[name] === undefined ? [] : [[name, headers[name]] as const],
  );
  const parts = selectParts(
    await inTurns(jsonOf(body, headers)),
    reply.filter((part) => !part.startsWith('header:')),
  );
  const values = passed.map(([, value]) => value);
  if (await inTurns(echoes(hidden, parts, values, reserve)))
    throw fail('destination_echoed_data', { sent: true, expected: true });
  const own = { [destinationHeader]: destination };
  const isEmpty = parts === undefined || [204, 205, 304].includes(status);
  return { status, headers: { ...Object.fromEntries(passed), ...own }, ...(!isEmpty && { body: parts }) };
}

/** Names of fields count, too. To parse so many takes up to ten milliseconds. */
const maxReplyValues = 40_000;

/** Undefined without a body. Throws if it is not JSON, or is compressed, because the request accepted no encoding. */
function* jsonOf(body: Buffer | undefined, headers: OutboundReply['headers']): Steps<unknown> {
  if (!body || body.length === 0) return undefined;
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw new Error('the reply is compressed');
  if (!/^application\/([\w.+-]+\+)?json\b/i.test(headers['content-type'] ?? ''))
    throw new Error('the reply is not JSON');
  const text = body.toString();
  const problem = jsonLimitError(text, maxReplyValues);
  if (problem !== undefined) throw new Error(`the reply ${problem}`);
  yield;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error('the reply is not valid JSON');
  }
  yield;
  return value;
}
