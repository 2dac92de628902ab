/** Whether a history of concurrent operations on one value could have happened one after the other. */
export interface Operation<V> {
  /** Places in the order of all events. An operation without an answer may take effect at any later time, or never. */
  readonly start: number;
  readonly end: number | undefined;
  /** The value that was written, or the value that was seen. */
  readonly kind: 'write' | 'read';
  readonly value: V;
}

/** `apply` returns the state after a write. Searches all orders in which no operation moves past one that had ended. */
export function isLinearizable<V extends string>(
  operations: readonly Operation<V>[],
  initial: V,
  apply: (state: V, written: V) => V = (_, written) => written,
): boolean {
  const failed = new Set<string>();
  const search = (left: readonly Operation<V>[], state: V): boolean => {
    if (left.every(({ end }) => end === undefined)) return true;
    const name = `${state} ${left.map((each) => operations.indexOf(each)).join()}`;
    if (failed.has(name)) return false;
    const earliestEnd = Math.min(...left.map(({ end = Number.POSITIVE_INFINITY }) => end));
    const next = left.filter(({ start }) => start < earliestEnd);
    const found = next.some((each) => {
      if (each.kind === 'read' && each.value !== state) return false;
      const after = each.kind === 'read' ? state : apply(state, each.value);
      return search(
        left.filter((other) => other !== each),
        after,
      );
    });
    if (!found) failed.add(name);
    return found;
  };
  return search(
    operations.filter(({ kind, end }) => kind === 'write' || end !== undefined),
    initial,
  );
}
