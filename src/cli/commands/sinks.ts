import { configuredSinks, describeError, type Sink, type SinkState, testSink } from '../../audit/delivery.ts';
import { byOperator } from '../../domain/audit.ts';
import { timestamp } from '../../domain/common-fields.ts';
import type { Command, Invocation } from '../command.ts';
import { CommandError, UsageError } from '../errors.ts';
import { withStore } from '../terminal/database.ts';
import { confirm, yesOption } from '../terminal/options.ts';
import { printTable } from '../terminal/print.ts';

export const commands: readonly Command[] = [
  {
    usage: 'sinks list',
    isDefault: true,
    summary: 'List the sinks that receive the audit log, with their state.',
    details:
      'A sink is `ok`, `behind` (entries are not delivered yet), `failing` (the last attempt failed), `rejected` (the receiver has rejected entries), `changed` (its stored position in some chains was changed, and they are not delivered) or `gap` (entries were archived with --skip-undelivered before it received them). Reads the configuration of this machine and the database, whether the service runs or not.',
    examples: ['sallyport sinks', 'sallyport sinks --json'],
    run: list,
  },
  {
    usage: 'sinks test <NAME>',
    summary: 'Send a test event to a sink.',
    details: 'Sends one entry with the operation `sink.test`, which is not written to the audit log.',
    examples: ['sallyport sinks test siem'],
    run: test,
  },
  {
    usage: 'sinks acknowledge <NAME>',
    options: [yesOption],
    summary: 'Continue after a sink has rejected entries, or after its position was changed.',
    details:
      'SALLYPORT_AUDIT_RETENTION deletes no entry that a sink has rejected, and none after it in the same chain. This command counts rejected entries as delivered. Save them first with `sallyport audit export` or `sallyport audit archive`: they are not sent again. A chain whose stored position was changed is delivered again, from its first segment in the database. Recorded in the audit log.',
    examples: ['sallyport sinks acknowledge collector'],
    run: acknowledge,
  },
];

async function list(invocation: Invocation): Promise<number> {
  const sinks = await configuredSinks(invocation.config, { env: invocation.terminal.env, now: Date.now });
  return withStore(invocation, async ({ sinks: { deliveries } }) => {
    const states = await Promise.all(
      sinks.map(async (sink) => ({ sink, state: await deliveries.state(sink.name) })),
    );
    return printTable(
      invocation,
      states.map(toJson),
      'sinks',
      ['NAME', 'TYPE', 'TARGET', 'STATE', 'LAG', 'SKIPPED', 'LAST DELIVERY', 'LAST ERROR'],
      states.map(toRow),
    );
  });
}

interface Listed {
  readonly sink: Sink;
  readonly state: SinkState;
}

function toJson({ sink: { name, type, target }, state }: Listed) {
  const time = (value: number | undefined) => (value === undefined ? null : timestamp(value));
  return {
    name,
    type,
    target,
    state: nameOfState(state),
    lag: { entries: state.lagEntries, seconds: state.lagSeconds },
    last_delivery_at: time(state.lastDeliveryAt),
    failures: state.failures,
    last_error: state.lastError ?? null,
    last_error_at: time(state.lastErrorAt),
    next_attempt_at: time(state.retryAt),
    chains_with_rejected_entries: state.rejectedChains,
    skipped_entries: state.skippedEntries,
    truncated_chains: state.truncatedChains,
    changed_positions: state.changedPositions,
  };
}

function toRow({ sink: { name, type, target }, state }: Listed): string[] {
  const { lagEntries, lagSeconds, skippedEntries, lastDeliveryAt, lastErrorAt, lastError } = state;
  const lag = lagEntries === 0 ? '0' : `${lagEntries} (${Math.round(lagSeconds)} s)`;
  const error = lastErrorAt === undefined ? '-' : `${timestamp(lastErrorAt)} ${lastError}`;
  const delivered = lastDeliveryAt === undefined ? 'never' : timestamp(lastDeliveryAt);
  return [name, type, target, nameOfState(state), lag, String(skippedEntries), delivered, error];
}

function nameOfState(state: SinkState): 'ok' | 'behind' | 'failing' | 'rejected' | 'gap' | 'changed' {
  if (state.changedPositions > 0) return 'changed';
  if (state.failures > 0) return 'failing';
  if (state.rejectedChains > 0) return 'rejected';
  if (state.lagEntries > 0) return 'behind';
  return state.skippedEntries > 0 ? 'gap' : 'ok';
}

async function findSink({ config, terminal, args: [wanted] }: Invocation): Promise<Sink> {
  const sinks = await configuredSinks(config, { env: terminal.env, now: Date.now });
  const sink = sinks.find(({ name }) => name === wanted);
  if (sink) return sink;
  const names = sinks.map(({ name }) => name).join(', ');
  throw new UsageError(`no sink is named "${wanted}"`, names === '' ? noSinks : `configured sinks: ${names}`);
}

async function acknowledge(invocation: Invocation): Promise<number> {
  const { printResult } = invocation;
  const { name } = await findSink(invocation);
  return withStore(invocation, async ({ sinks: { deliveries } }, store) => {
    const { rejectedChains: rejected, changedPositions: changed } = await deliveries.state(name);
    const result = {
      sink: name,
      chains_with_rejected_entries: rejected,
      chains_with_changed_position: changed,
    };
    if (rejected + changed === 0)
      return printResult(result, `${name} has no rejected entries and no changed positions`);
    const again = `${name} then receives ${changed} chains again, from their first segments in the database. `;
    const deletion = `Automatic deletion can then delete entries that ${name} does not have. `;
    const consequences = (changed > 0 ? again : '') + (rejected > 0 ? deletion : '');
    await confirm(invocation, `${consequences}Continue?`);
    await store.audit.write([
      {
        ...byOperator,
        at: Date.now(),
        operation: 'sink.acknowledge',
        entity: { kind: 'sink', id: name },
        difference: {
          chains_with_rejected_entries: { from: rejected, to: 0 },
          ...(changed > 0 && { chains_with_changed_position: { from: changed, to: 0 } }),
        },
      },
    ]);
    await deliveries.acknowledge(name);
    const done = [
      rejected > 0 ? `the rejected entries in ${rejected} chains` : '',
      changed > 0 ? `the changed positions of ${changed} chains` : '',
    ];
    return printResult(result, `acknowledged for ${name}: ${done.filter(Boolean).join(', ')}`);
  });
}

async function test(invocation: Invocation): Promise<number> {
  const { printResult } = invocation;
  const sink = await findSink(invocation);
  const { name } = sink;
  const event = await testSink(sink, Date.now()).catch((error) => {
    throw new CommandError(`${name}: ${describeError(error)}`);
  });
  return printResult({ sink: name, event }, `sent ${event} to ${name} (${sink.target})`);
}

const noSinks = 'configure sinks with SALLYPORT_SINKS_FILE or SALLYPORT_SINK';
