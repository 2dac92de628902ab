/** How many tenants are written at a time. On SQLite, they share a commit. */
const concurrency = 4;

/**
 * Writes what a recorder has collected, at most `batchSize` items of one tenant per transaction. If a batch fails,
 * `putBack` gets the items that were not written, and the error is thrown.
 */
export async function writePending<T extends { readonly tenantId: string }>(
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
  for (let from = 0; from < batches.length; from += concurrency) {
    const some = batches.slice(from, from + concurrency);
    const results = await Promise.allSettled(some.map(write));
    const failed = results.find((result) => result.status === 'rejected');
    if (!failed) continue;
    putBack(some.filter((_, at) => results[at]?.status === 'rejected').flat());
    putBack(batches.slice(from + concurrency).flat());
    throw failed.reason;
  }
}
