/** Passes the reply of a destination on as it arrives. What was inserted is found before its first byte is passed on. */
import { Echo, type EchoFilter, echoes } from '../../domain/echoes.ts';
import { Failure, fail } from '../../domain/error.ts';
import { usableDestinations } from '../../domain/principal.ts';
import { inTurns, nextTurn, type Reserve } from '../../domain/steps.ts';
import type { OutboundRequest, StreamedReply } from '../../outbound/http-connection.ts';
import { isLimited } from '../admit.ts';
import type { Call, Reply } from '../pipeline/route.ts';
import { afterSending, destinationHeader, finish, type Sending, type Use } from './proxy-use.ts';

/** Milliseconds between checks of the key, so that its end cuts the stream within a second. */
const checkInterval = 500;
/** Milliseconds that streams go on while the process is shutting down. */
const grace = 10_000;
/** Replies with the first bytes or an error. Later errors close the connection before the end of the reply. */
export async function streamReply(sending: Sending, request: OutboundRequest): Promise<Reply> {
  const { call, use, lease, context } = sending;
  let status: number | undefined;
  let hasEnded = false;
  let watching: Timer | undefined;
  const reservation = context.memory.for(call.principal, call.requestInfo);
  const end = async (reason?: string) => {
    if (hasEnded) return;
    hasEnded = true;
    clearInterval(watching);
    lease.release();
    reservation.release();
    await finish(sending, status, reason);
  };
  try {
    const reply = await lease.stream(request);
    ({ status } = reply);
    const headers = await inTurns(headersOf(reply, use, context.memory.reserverFor(call)));
    const next = () => nextClean(reply, use.filter as EchoFilter);
    const first = await next();
    if (first === undefined) {
      await end();
      return { status, headers };
    }
    call.requestInfo.keepOpen('always');
    reservation.isSending = true;
    const allowed = await stillAllowed(sending);
    let stop = (_error: Failure) => {};
    watching = setInterval(() => void allowed().catch((error: Failure) => stop(error)), checkInterval);
    let waiting: Buffer | undefined = first;
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          stop = (error) => {
            if (hasEnded) return;
            void end(error.code);
            // The head is sent two turns after it was returned. A library would repeat a request without a head.
            void nextTurn()
              .then(nextTurn)
              .then(() => controller.error(error));
          };
        },
        pull: async (controller) => {
          try {
            const part = waiting ?? (await next());
            waiting = undefined;
            if (hasEnded) return;
            if (part) return controller.enqueue(part);
            await end();
            controller.close();
          } catch (error) {
            stop(failureOf(error));
          }
        },
        cancel: () => end('client_disconnected'),
      },
      { highWaterMark: 0 },
    );
    return { status, headers, body };
  } catch (error) {
    const failure = failureOf(error);
    await end(failure.code);
    throw failure;
  }
}

function failureOf(error: unknown): Failure {
  return error instanceof Echo
    ? fail('destination_echoed_data', { sent: true, expected: true })
    : afterSending(error);
}

/** The next bytes that can be passed on. Undefined at the end. */
async function nextClean(reply: StreamedReply, filter: EchoFilter): Promise<Buffer | undefined> {
  for (;;) {
    const chunk = await reply.next();
    const clean = chunk ? await inTurns(filter.push(chunk)) : filter.end();
    if (clean.length > 0) return clean;
    if (!chunk) return undefined;
  }
}

function* headersOf({ headers }: StreamedReply, { hidden, destination }: Use, reserve: Reserve) {
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw new Error('the reply is compressed');
  const type = headers['content-type'] ?? 'application/octet-stream';
  if (yield* echoes(hidden, undefined, [type], reserve)) throw new Echo();
  return {
    'Content-Type': type,
    // The page of a destination must not run as a page of this service.
    'Content-Security-Policy': 'sandbox',
    [destinationHeader]: destination.name,
  };
}

/** Returns a check that throws when the key has ended or may no longer use the destination, or the process ends. */
async function stillAllowed({ call, use, context }: Sending): Promise<() => Promise<void>> {
  const { tenantId, applicationId } = call.principal;
  const admit = () => (call as Required<Pick<Call, 'admit'>>).admit(context.store.credentials);
  const isGone = async () =>
    await Promise.resolve()
      .then(admit)
      .then(() => false, isUnauthenticated);
  // This use was the last one of a delegation, and has ended it. The stream ends with its application.
  const wasLast = isLimited(call.principal) && (await isGone());
  let stopping: number | undefined;
  let isChecking = false;
  return async () => {
    if (!context.ready()) stopping ??= performance.now();
    if (stopping !== undefined && performance.now() - stopping > grace) throw fail('unavailable');
    if (isChecking) return;
    isChecking = true;
    try {
      if (wasLast) {
        const application = await context.store.applications.get(tenantId, applicationId);
        if (!application || application.quarantined_at) throw fail('unauthenticated');
      } else if (!usableDestinations(await admit()).has(use.destination.id)) throw fail('not_found');
    } catch (error) {
      throw error instanceof Failure ? error : fail('unavailable', { cause: error });
    } finally {
      isChecking = false;
    }
  };
}

const isUnauthenticated = (error: unknown) => error instanceof Failure && error.code === 'unauthenticated';
