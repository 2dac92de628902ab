/** How the processor time for each part grows if the work becomes eight times as large: about 1 if it is linear, 8 if it is quadratic. */
export function growth(workOf: (size: number) => () => unknown, size: number): number {
  const factor = 8;
  const [small, large] = [workOf(size), workOf(factor * size)];
  // Below a millisecond, other things are measured. The first runs are those before optimization.
  let repeats = 4;
  while (timeOf(small, repeats) < 1000 && repeats < 1024) repeats *= 2;
  // Others use the processor, too: the shortest times are nearest to the truth.
  const shortest = (work: () => unknown, times: number) =>
    Math.min(...[1, 2, 3, 4].map(() => timeOf(work, times) / times));
  return shortest(large, Math.ceil(repeats / factor)) / shortest(small, repeats) / factor;
}

/** Microseconds. */
function timeOf(work: () => unknown, repeats: number): number {
  const before = process.cpuUsage();
  for (let count = 0; count < repeats; count++) work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
