/**
 * Checks in SQL that fail with an error without any other cause. A lookup evaluates them together with its condition: a
 * server that must not answer then fails, instead of finding no row.
 */

/**
 * SQL that fails unless a connection leads to the server that was started at `startedAt`: an address can be moved, and a
 * server restarted.
 */
export function isServer(startedAt: string): string {
  return `sqrt(case when pg_postmaster_start_time() = '${startedAt}' then 1 else -1 end)`;
}

/**
 * SQL that is 1, and fails on a standby and on an old primary that was made read-only after a failover, which may not know
 * that a key was revoked; also if `sameServer` fails. Evaluated once per query.
 */
export function isWritable(sameServer = '1'): string {
  return `${sameServer} / case when current_setting('transaction_read_only') = 'on' then 0 else 1 end`;
}

/**
 * SQL that is 0, and fails unless this worker of a Citus cluster has the shard. A move marks the placement on all servers
 * before it is committed on any, so that no server has rows that were changed elsewhere since.
 */
export function isSettled(shard: string): string {
  return `ln((select count(*) from pg_dist_placement p join pg_dist_local_group using (groupid) where p.shardid = ${shard}
    and (p.xmax = 0 or pg_xact_status(cast(cast(p.xmax as text) as xid8)) = 'aborted')))`;
}

/** The SQLSTATEs of the errors: the root of a negative number, a division by zero, and the logarithm of 0. */
export const failedChecks = { isServer: '2201F', isWritable: '22012', isSettled: '2201E' };
