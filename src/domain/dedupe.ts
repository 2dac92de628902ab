/** Removes duplicates, but remembers the original indexes for the paths of validation errors. */
const originalIndexes = new WeakMap<readonly unknown[], readonly number[]>();

/** Returns the first entry of each identity. */
export function dedupe<T>(list: T[], identityOf: (entry: T) => unknown): T[] {
  if (list.length < 2) return list;
  const firstIndex = new Map<unknown, number>();
  for (const [index, entry] of list.entries()) {
    const identity = identityOf(entry);
    if (!firstIndex.has(identity)) firstIndex.set(identity, index);
  }
  if (firstIndex.size === list.length) return list;
  const indexes = [...firstIndex.values()];
  const unique = indexes.map((index) => list[index] as T);
  originalIndexes.set(unique, indexes);
  return unique;
}

/** The index of an entry before duplicates were removed. */
export function originalIndex(list: readonly unknown[], index: number): number {
  return originalIndexes.get(list)?.[index] ?? index;
}
