/** Checks the audit log and its delivery for `doctor`. */
import { auditSource, type SinkState } from '../audit/delivery.ts';
import type { PendingEntries } from '../audit/log.ts';
import { chainKeysOf, checkHeads as verifyHeads } from '../audit/proof.ts';
import type { MasterKeys } from '../store/crypto/keyring.ts';
import type { Db } from '../store/engine/db.ts';
import { type Check, fail, ok, startHint, warn } from './check.ts';

/** Milliseconds after which an entry that is not sealed causes a warning. */
const maxUnsealed = 60_000;

export function checkSealed({ entries, age }: PendingEntries): Check {
  const some = entries === 1 ? '1 entry is' : `${entries} entries are`;
  if (age > maxUnsealed)
    return warn('audit log', `${some} not sealed yet, the oldest for ${Math.round(age / 1000)} s`, startHint);
  return ok('audit log', entries === 0 ? 'all entries are sealed' : `${some} not sealed yet`);
}

/** Verifies the last segment of each chain and its index. */
export async function checkHeads(db: Db, masters: MasterKeys, hint: string): Promise<Check[]> {
  const keys = await chainKeysOf(db, masters);
  if (!keys) return [fail('audit log', 'the signatures of the segments cannot be verified', hint)];
  const { chains, entries, problem } = await verifyHeads(db, keys);
  if (problem !== undefined) return [fail('audit log', problem, hint)];
  if (chains === 0) return [];
  return [ok('audit log', `signed: ${entries} entries in ${chains} ${chains === 1 ? 'chain' : 'chains'}`)];
}

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
  const states = await Promise.all(
    sinks.map((name) => auditSource({ db, keys: () => keys }).deliveries.state(name)),
  );
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
        'start the service, or find out why the receiver is slow',
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
