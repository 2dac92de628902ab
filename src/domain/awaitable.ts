/** A value that may be there at once: an embedded database answers without a wait, and so should we. */
export type Awaitable<T> = T | Promise<T>;

/** Continues at once where the value is there at once. */
export function then<T, U>(value: Awaitable<T>, next: (value: T) => Awaitable<U>): Awaitable<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}
