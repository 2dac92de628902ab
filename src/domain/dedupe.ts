/** Lists are kept without twins, but what is wrong with an entry is said of its place in what was sent. */
const places = new WeakMap<readonly unknown[], readonly number[]>();

/** The first of each; `nameOf` is the same for those that are. */
export function dedupe<T>(list: T[], nameOf: (entry: T) => unknown): T[] {
  if (list.length < 2) return list;
  const first = new Map<unknown, number>();
  for (const [index, entry] of list.entries()) {
    const name = nameOf(entry);
    if (!first.has(name)) first.set(name, index);
  }
  if (first.size === list.length) return list;
  const kept = [...first.values()];
  const left = kept.map((index) => list[index] as T);
  places.set(left, kept);
  return left;
}

/** Where an entry of the list stood before its twins were left out. */
export function originalIndex(list: readonly unknown[], index: number): number {
  return places.get(list)?.[index] ?? index;
}
