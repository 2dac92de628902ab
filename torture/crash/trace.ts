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

/** Command prefix that makes each sync take this many milliseconds longer. */
export function slowSyncs(milliseconds: number): string[] {
  const calls = 'fsync,fdatasync';
  const inject = `inject=${calls}:delay_exit=${1000 * milliseconds}`;
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

export interface SyncOrder {
  /** Answered requests. */
  readonly answered: number;
  readonly syncs: number;
  /** Syncs between two responses, by the thread that sends them. */
  readonly onEventLoop: number;
  /** Requests that were answered before a sync of what they may have written or read. */
  readonly early: readonly string[];
}

const call = /^(\d+) +(?:<\.\.\. )?(\w+)/;

/**
 * `name` matches the ids of changing requests. `log` is the suffix of the log file's name. Requests with the same
 * `subject` are about one change: each response to them needs a sync that began after the first write that followed the
 * first of them.
 */
export function parseOrder(
  trace: string,
  name: RegExp,
  log: string,
  subject: (id: string) => number,
): SyncOrder {
  /** Writes to the log before the sync that each thread makes. */
  const syncing = new Map<string, number>();
  /** Writes to the log before the first request of each subject. */
  const received = new Map<number, number>();
  const early: string[] = [];
  let [answered, syncs, written, synced] = [0, 0, 0, 0];
  let [onEventLoop, sinceResponse] = [0, 0];
  let sender = '';
  for (const line of trace.split('\n')) {
    const [, thread = '', made = ''] = call.exec(line) ?? [];
    const ids = Array.from(line.matchAll(name), ([id]) => id);
    if (made === 'recvfrom')
      for (const each of ids.map(subject)) if (!received.has(each)) received.set(each, written);
    if (made === 'pwrite64' && line.includes(`${log}>`)) written++;
    if (made === 'fsync' || made === 'fdatasync') {
      if (thread === sender) sinceResponse++;
      if (line.includes(`${log}>`)) syncing.set(thread, written);
      const began = syncing.get(thread);
      if (began === undefined || line.endsWith('<unfinished ...>')) continue;
      syncing.delete(thread);
      if (!/= 0$/.test(line)) continue;
      syncs++;
      synced = Math.max(synced, began);
    }
    if (made !== 'sendto' || !/"HTTP\/1\.1 [24]/.test(line) || ids.length === 0) continue;
    sender = thread;
    onEventLoop += sinceResponse;
    sinceResponse = 0;
    answered += ids.length;
    const needed = (id: string) => (received.get(subject(id)) ?? 0) + 1;
    early.push(...ids.filter((id) => synced < needed(id)));
  }
  return { answered, syncs, onEventLoop, early };
}
