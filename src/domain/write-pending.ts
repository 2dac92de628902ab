/** How many tenants are written at a time. On SQLite, they share a commit. */
const concurrency = 4;

/** Milliseconds after which a failure ends the writing. Until then, tenants on other servers of a cluster are written. */
const maxTime = 5000;

/**
 * Writes what a recorder has collected, at most `batchSize` items of one tenant per transaction. If a batch fails,
 * `putBack` gets the items that were not written, and the error is thrown.
 */
export async function writePending<T extends { readonly tenantId?: string | undefined }>(
  items: readonly T[],
  batchSize: number,
  write: (batch: readonly T[]) => Promise<void>,
  putBack: (unwritten: readonly T[]) => void,
): Promise<void> {
  const batches = Array.from(Map.groupBy(items, ({ tenantId }) => tenantId).values(), (ofTenant) =>
    Array.from({ length: Math.ceil(ofTenant.length / batchSize) }, (_, at) =>
      ofTenant.slice(at * batchSize, (at + 1) * batchSize),
    ),
  ).flat();
  const end = performance.now() + maxTime;
  let failed: PromiseRejectedResult | undefined;
  for (let from = 0; from < batches.length; from += concurrency) {
    if (failed && performance.now() > end) {
      putBack(batches.slice(from).flat());
      break;
    }
    const some = batches.slice(from, from + concurrency);
    const results = await Promise.allSettled(some.map(write));
    failed ??= results.find((result) => result.status === 'rejected');
    putBack(some.filter((_, at) => results[at]?.status === 'rejected').flat());
  }
  if (failed) throw failed.reason;
}
