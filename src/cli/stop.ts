/** Milliseconds within which a second signal is the first one again: a launcher passes on what the terminal sent. */
const echo = 500;

/** Resolves at the first request to stop, or when the supervisor is gone; at the second request, it ends at once. */
export function untilTold(): Promise<void> {
  return new Promise((resolve) => {
    let told = Number.POSITIVE_INFINITY;
    const tell = () => {
      if (performance.now() > told + echo) process.exit(130);
      told = Math.min(told, performance.now());
      resolve();
    };
    process.on('SIGTERM', tell);
    process.on('SIGINT', tell);
    process.on('disconnect', resolve);
  });
}
