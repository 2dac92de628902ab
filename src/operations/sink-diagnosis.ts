/** Checks the delivery of the audit log for `doctor`. */
import { deliveries } from '../store/audit/deliveries.ts';
import type { SinkState } from '../store/audit/sink-state.ts';
import type { MasterKeys } from '../store/crypto/keyring.ts';
import type { Db } from '../store/engine/db.ts';
import { chainKeysOf } from './audit-diagnosis.ts';
import { type Check, fail, ok, warn } from './check.ts';

/**
 * Seconds after which undelivered entries cause a warning. More than a minute, because batches for S3 are collected
 * that long by default.
 */
const maxLag = 300;

/** `sinks` are the names of the configured sinks. */
export async function checkSinks(db: Db, masters: MasterKeys, sinks: readonly string[]): Promise<Check[]> {
  const keys = sinks.length === 0 ? undefined : await chainKeysOf(db, masters);
  // If the keys are missing, the checks of the audit log already report it.
  if (!keys) return [];
  const states = await Promise.all(sinks.map((name) => deliveries(db, () => keys).state(name)));
  const problems = states.flatMap(checkSink);
  if (problems.length > 0) return problems;
  return sinks.length === 0 ? [] : [ok('sinks', `the audit log was delivered to ${sinks.join(', ')}`)];
}

function checkSink(state: SinkState): Check[] {
  const {
    name,
    failures,
    lastError,
    lagEntries,
    lagSeconds,
    rejectedChains,
    truncatedChains,
    skippedEntries,
    changedPositions,
  } = state;
  const found: Check[] = [];
  if (truncatedChains > 0)
    found.push(
      fail(
        'sinks',
        `${name} has received later entries than this database has, in ${count(truncatedChains, 'chain')}`,
        'unless you restored a backup, entries were removed: see "Detect a truncated log" in docs/operations/audit-delivery.md',
      ),
    );
  if (changedPositions > 0)
    found.push(
      warn(
        'sinks',
        `another program has changed the position of ${name} in ${count(changedPositions, 'chain')}: these chains are delivered again`,
        'find out who can write to the database',
      ),
    );
  if (failures > 0)
    found.push(
      warn(
        'sinks',
        `${name}: ${count(failures, 'failed attempt')} since the last delivery: ${lastError}`,
        `correct the cause, and run \`sallyport sinks test ${name}\``,
      ),
    );
  else if (lagSeconds > maxLag)
    found.push(
      warn(
        'sinks',
        `${name} is ${Math.round(lagSeconds)} s and ${count(lagEntries, 'entry', 'entries')} behind`,
        'start the service, or raise `batch` for this sink',
      ),
    );
  if (skippedEntries > 0)
    found.push(
      warn(
        'sinks',
        `${name} has never received ${count(skippedEntries, 'entry', 'entries')} that were archived and deleted`,
        'copy them from the archives to the receiver if it needs them',
      ),
    );
  if (rejectedChains > 0)
    found.push(
      warn(
        'sinks',
        `${name} has rejected entries in ${count(rejectedChains, 'chain')}: ${lastError}`,
        `save them with \`sallyport audit export\`, because they are not sent again; then run \`sallyport sinks acknowledge ${name}\`, so that automatic deletion continues`,
      ),
    );
  return found;
}

function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
