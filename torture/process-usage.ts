/** CPU time and memory of processes, from /proc. */
import { readdirSync, readFileSync } from 'node:fs';

/** Milliseconds of CPU time of all threads of a process. 0 if it has exited. */
export function processorTime(pid: number): number {
  const nanoseconds = threadsOf(pid).map((thread) =>
    Number(textOf(`/proc/${pid}/task/${thread}/schedstat`).split(' ')[0]),
  );
  return nanoseconds.reduce((sum, each) => sum + each, 0) / 1e6;
}

/** CPU time of a process and its children, including exited ones. */
export function processorTimeWithChildren(pid: number): number {
  const children = textOf(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
  const alive = [pid, ...children].map(processorTime).reduce((sum, each) => sum + each, 0);
  return alive + endedChildren(pid);
}

/** CPU milliseconds of exited children. Linux counts in hundredths of a second. */
function endedChildren(pid: number): number {
  const fields = textOf(`/proc/${pid}/stat`)
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[13] ?? 0) + Number(fields[14] ?? 0)) * 10;
}

/** Megabytes. NaN if the process or /proc does not exist. */
export function residentMegabytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(textOf(`/proc/${pid}/status`))?.[1]) / 1024;
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
