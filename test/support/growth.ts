/** The processor time of work of four times the size, as a multiple: about 4 if it is linear, and 16 if it is quadratic. */
export function growth(workOf: (size: number) => () => unknown, size: number): number {
  const [small, large] = [workOf(size), workOf(4 * size)];
  // What takes less than a millisecond measures something else.
  let repeats = 1;
  while (timeOf(small, repeats) < 1000 && repeats < 1024) repeats *= 2;
  // Others use the processor, too: the shortest times are nearest to the truth.
  const shortest = (work: () => unknown) => Math.min(...[1, 2, 3].map(() => timeOf(work, repeats)));
  return shortest(large) / shortest(small);
}

/** Microseconds. */
function timeOf(work: () => unknown, repeats: number): number {
  const before = process.cpuUsage();
  for (let count = 0; count < repeats; count++) work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
