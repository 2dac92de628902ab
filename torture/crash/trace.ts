/** Reads from an strace log of a server when requests arrived, the log was written and synced, and responses sent. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

export function hasStrace(): boolean {
  return spawnSync('strace', ['-V']).status === 0;
}

/**
 * Command prefix that traces system calls into a file, with enough data to identify requests by id. Signals go to the
 * command itself.
 */
export function traced(output: string): string[] {
  const calls = 'trace=recvfrom,sendto,pwrite64,fsync,fdatasync';
  return ['strace', '-D', '-f', '-y', '-s', '700', '--seccomp-bpf', '-o', output, '-e', calls];
}

/** Command prefix that makes syncs fail. `when` selects the failing syncs of each thread, in strace syntax. */
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

/** Waits for the complete log, which strace finishes shortly after the command ends. */
export async function readTrace(output: string): Promise<string> {
  for (;;) {
    const text = readFileSync(output, 'latin1');
    if (/\+\+\+ (exited|killed)[^\n]*\n$/.test(text)) return text;
    await Bun.sleep(10);
  }
}

export interface SyncOrder {
  /** Successful requests. */
  readonly answered: number;
  readonly syncs: number;
  /** Requests whose response was sent before their data was synced. */
  readonly early: readonly string[];
}

const call = /^(\d+) +(?:<\.\.\. )?(\w+)/;

/** `name` matches request ids. `log` is the suffix of the log file's name. */
export function parseOrder(trace: string, name: RegExp, log: string): SyncOrder {
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
