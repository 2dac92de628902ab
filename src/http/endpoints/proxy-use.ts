/** A use of a destination: what was checked, what is sent, and how it ends. */
import type { DestinationRequest } from '../../domain/destination.ts';
import { Failure, fail } from '../../domain/error.ts';
import type { FilledRequest } from '../../domain/placeholders.ts';
import type { Lease } from '../../outbound/destinations.ts';
import type { NewEntry, StoredDestination, StoredToken } from '../../store/store.ts';
import type { Call, HandlerContext } from '../pipeline/route.ts';

/** A request that was checked and can be sent. */
export interface Use {
  readonly destination: StoredDestination;
  readonly secrets: ReturnType<StoredDestination['secrets']>;
  readonly listed: DestinationRequest;
  /** In the order of their ids, so that all transactions lock them in the same order. */
  readonly tokens: readonly StoredToken[];
  readonly filled: FilledRequest;
}

export const destinationHeader = 'SVC-DESTINATION';

/** A use that is recorded, and that nobody else sends. */
export interface Sending {
  readonly call: Call;
  readonly use: Use;
  /** The entry before the request. */
  readonly entry: NewEntry;
  readonly lease: Lease;
  readonly observe: (outcome: string) => void;
  readonly context: HandlerContext;
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
  { entry, observe, context }: Sending,
  status: number | undefined,
  reason: string | undefined,
): Promise<void> {
  observe(reason ?? 'replied');
  await context.trail.record([{ kind: 'outcome', use: entry, status, reason }]);
}
