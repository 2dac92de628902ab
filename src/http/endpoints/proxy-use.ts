/** A use of a destination: what was checked, what is sent, and how it ends. */

import { Denial } from '../../domain/denial.ts';
import type { DestinationRequest } from '../../domain/destination.ts';
import type { EchoFilter } from '../../domain/echoes.ts';
import { Failure, fail } from '../../domain/error.ts';
import type { FilledRequest } from '../../domain/placeholders.ts';
import type { Principal } from '../../domain/principal.ts';
import type { Lease } from '../../outbound/destinations.ts';
import type { NewEntry, StoredDestination, StoredToken, StoreTransaction } from '../../store/store.ts';
import type { Call, HandlerContext } from '../pipeline/route.ts';

/** A request that was checked and can be sent. */
export interface Use {
  readonly destination: StoredDestination;
  readonly secrets: ReturnType<StoredDestination['secrets']>;
  readonly listed: DestinationRequest;
  /** In the order of their ids, so that all transactions lock them in the same order. */
  readonly tokens: readonly StoredToken[];
  readonly filled: FilledRequest;
  /** Inserted texts and secrets of the destination. None of them may be in the reply. */
  readonly hidden: readonly string[];
  /** Of a stream. */
  readonly filter: EchoFilter | undefined;
}

export const destinationHeader = 'SVC-DESTINATION';

/** A use that is recorded, and that nobody else sends. */
export interface Sending {
  readonly call: Call;
  readonly use: Use;
  /** The entry before the request. */
  readonly entry: NewEntry;
  readonly lease: Lease;
  readonly watched: Watched;
  readonly observe: (outcome: string) => void;
  readonly context: HandlerContext;
}

/**
 * Uses that are in progress in this process, by token, destination and application. After an echo, the replies of the
 * others are withheld, too: requests that are sent together would each answer a guess.
 */
const inProgress = new Map<string, { uses: number; hasEchoed: boolean }>();

export class Watched {
  readonly #names: readonly string[];

  constructor({ tenantId, applicationId }: Principal, destination: string, tokens: readonly StoredToken[]) {
    this.#names = tokens.map(({ id }) => `${tenantId} ${destination} ${applicationId} ${id}`);
    for (const name of this.#names) {
      const { uses = 0, hasEchoed = false } = inProgress.get(name) ?? {};
      inProgress.set(name, { uses: uses + 1, hasEchoed });
    }
  }

  get hasEchoed(): boolean {
    return this.#names.some((name) => inProgress.get(name)?.hasEchoed);
  }

  echo(): void {
    for (const name of this.#names) (inProgress.get(name) as { hasEchoed: boolean }).hasEchoed = true;
  }

  end(): void {
    for (const name of this.#names) {
      const each = inProgress.get(name);
      if (each && --each.uses === 0) inProgress.delete(name);
    }
  }
}

export function stopped() {
  return new Denial('use_stopped', undefined, { reason: 'the destination has echoed a token' });
}

/** Stops the use of the tokens whose data may have been in the reply. */
async function stop({ call, use, context }: Sending): Promise<void> {
  const { tenantId, applicationId, now } = call.principal;
  const { destination, filled } = use;
  const tokens = [...filled.inserted].flatMap(([id, texts]) => (texts.length > 0 ? [id] : []));
  if (tokens.length === 0) return;
  const change = (tx: StoreTransaction) =>
    tx.destinations.stop(tenantId, destination.id, applicationId, tokens, now);
  await context.store.change(tenantId, change, destination.id);
}

/** An error after sending. The request must not be repeated, so others become `destination_failed`. */
export function afterSending(error: unknown): Failure {
  if (error instanceof Failure && error.sent) return error;
  const isTimeout = (error as { isTimeout?: boolean }).isTimeout === true;
  const code = isTimeout ? 'destination_timeout' : 'destination_failed';
  return fail(code, { sent: true, expected: true, cause: error });
}

/** The end of a use, in the metrics and the audit log. */
export async function finish(
  sending: Sending,
  status: number | undefined,
  reason: string | undefined,
): Promise<void> {
  const { entry, observe, context, watched } = sending;
  let isStopped = true;
  if (reason === 'destination_echoed_data') {
    watched.echo();
    await stop(sending).catch((error: unknown) => {
      isStopped = false;
      context.log.error('an echo did not stop the use of a token', { error });
    });
  }
  // Otherwise this process goes on refusing it.
  if (isStopped) watched.end();
  observe(reason ?? 'replied');
  await context.trail.record([{ kind: 'outcome', use: entry, status, reason }]);
}
