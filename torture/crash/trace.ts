/** What strace tells of a server: when a request came, when the log was written and synced, when the answer went. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

export function hasStrace(): boolean {
  return spawnSync('strace', ['-V']).status === 0;
}

/**
 * Put before a command, has its system calls written to a file, with enough of them to tell requests by their id.
 * The command itself is what gets started and signalled.
 */
export function traced(output: string): string[] {
  const calls = 'trace=recvfrom,sendto,pwrite64,fsync,fdatasync';
  return ['strace', '-D', '-f', '-y', '-s', '700', '--seccomp-bpf', '-o', output, '-e', calls];
}

/** Put before a command, has the syncs of each of its threads fail that `when` names, in the words of strace. */
export function failingSyncs(calls: 'fsync,fdatasync' | 'fdatasync', when: string): string[] {
  const inject = `inject=${calls}:error=EIO:when=${when}`;
  return [
    'strace',
    '-D',
    '-f',
    '-qq',
    '--seccomp-bpf',
    '-o',
    '/dev/null',
    '-e',
    `trace=${calls}`,
    '-e',
    inject,
  ];
}

/** The whole of it: it is written until shortly after the command has ended. */
export async function readTrace(output: string): Promise<string> {
  for (;;) {
    const text = readFileSync(output, 'latin1');
    if (/\+\+\+ (exited|killed)[^\n]*\n$/.test(text)) return text;
    await Bun.sleep(10);
  }
}

export interface Order {
  /** Requests that were answered with a success. */
  readonly answered: number;
  readonly syncs: number;
  /** Those whose answer went out while something was written that no sync had covered, or with no sync since they came. */
  readonly early: readonly string[];
}

const call = /^(\d+) +(?:<\.\.\. )?(\w+)/;

/** `name` finds the ids of requests. The log is the file whose name ends with `log`. */
export function orderIn(trace: string, name: RegExp, log: string): Order {
  const syncing = new Set<string>();
  const unsynced = new Set<string>();
  const early: string[] = [];
  let [answered, syncs, dirty] = [0, 0, false];
  for (const line of trace.split('\n')) {
    const [, thread = '', made = ''] = call.exec(line) ?? [];
    const ids = Array.from(line.matchAll(name), ([id]) => id);
    if (made === 'recvfrom') for (const id of ids) unsynced.add(id);
    if (made === 'pwrite64' && line.includes(`${log}>`)) dirty = true;
    if (made === 'fsync' || made === 'fdatasync') {
      if (line.includes(`${log}>`)) syncing.add(thread);
      if (!syncing.has(thread) || line.endsWith('<unfinished ...>')) continue;
      syncing.delete(thread);
      if (!/= 0$/.test(line)) continue;
      syncs++;
      dirty = false;
      unsynced.clear();
    }
    if (made !== 'sendto' || !line.includes('"HTTP/1.1 2')) continue;
    answered += ids.length;
    early.push(...ids.filter((id) => dirty || unsynced.has(id)));
  }
  return { answered, syncs, early };
}
