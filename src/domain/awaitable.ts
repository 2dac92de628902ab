/** A value or a promise of one. SQLite answers synchronously; a promise would cost more than many of its queries. */
export type Awaitable<T> = T | Promise<T>;

/** Calls `next` synchronously if the value is available, otherwise when it resolves. */
export function then<T, U>(value: Awaitable<T>, next: (value: T) => Awaitable<U>): Awaitable<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}
