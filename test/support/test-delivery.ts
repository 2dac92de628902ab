/** Delivers the audit log of a test store to sinks, like a node does. */
import { readSinks, type Sink } from '../../src/audit/delivery/config.ts';
import { type Delivery, startDelivery } from '../../src/audit/delivery.ts';
import { byOperator } from '../../src/domain/audit.ts';
import { Secret } from '../../src/domain/key.ts';
import type { Maintenance } from '../../src/store/maintenance.ts';
import { makeLog } from '../../src/telemetry/log.ts';
import { unobserved } from '../../src/telemetry/observe.ts';
import type { WebhookReceiver } from './sink-receivers.ts';
import type { TestStore } from './test-store.ts';

export interface TestDelivery extends Delivery {
  readonly logged: string[];
}

export function openSink(config: object): Sink {
  const sink = new Secret(JSON.stringify(config));
  return readSinks({ sinksFile: undefined, sink }, { env: {}, now: Date.now })[0] as Sink;
}

/** A node that delivers on `flush`. Retries have no jitter: the first one is due after a second. */
export function openDelivery(
  sinks: readonly Sink[],
  { clock }: TestStore,
  { sinks: source }: Pick<Maintenance, 'sinks'>,
  timers = false,
): TestDelivery {
  const logged: string[] = [];
  const log = makeLog({ level: 'debug', asText: false, now: clock.now, write: (line) => logged.push(line) });
  const options = { log, observer: unobserved, now: clock.now, random: () => 0, timers };
  return { logged, ...startDelivery(sinks, source, options) };
}

/** Writes and seals entries with these operations. */
export async function writeEntries(
  { store, maintenance, clock }: TestStore,
  tenantId: string | undefined,
  ...operations: string[]
): Promise<void> {
  const at = clock.now();
  await store.audit.write(operations.map((operation) => ({ ...byOperator, at, tenantId, operation })));
  await maintenance.audit.seal();
}

/** Positions and operations of a tenant's entries, such as "1 token.read", in the order of arrival. */
export function operationsOf({ received }: WebhookReceiver, tenantId: string | undefined): string[] {
  return received
    .filter(({ data }) => data.tenant_id === tenantId)
    .flatMap(({ data }) => data.entries.map((entry: { seq: number; operation: string }) => entry))
    .map(({ seq, operation }) => `${seq} ${operation}`);
}
