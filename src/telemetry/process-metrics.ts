/** Metrics of this process, with the names that Prometheus client libraries use. */
import { readdirSync, readFileSync } from 'node:fs';
import type { Registry } from './metrics.ts';

export function addProcessMetrics(registry: Registry): void {
  const gauge = (name: string, help: string, read: () => number | undefined) =>
    registry.gauge(name, help, () => {
      const value = read();
      return value === undefined ? [] : [[{}, value]];
    });
  const startTime = performance.timeOrigin / 1000;
  const maxFiles = readMaxFiles();
  registry.externalCounter('process_cpu_seconds_total', 'User and system CPU time.', () => {
    const { user, system } = process.cpuUsage();
    return [[{}, (user + system) / 1e6]];
  });
  gauge('process_resident_memory_bytes', 'Resident memory.', () => process.memoryUsage.rss());
  gauge('process_start_time_seconds', 'Start of the process, in seconds since 1970.', () => startTime);
  gauge('process_open_fds', 'Open file descriptors, on Linux.', countOpenFiles);
  gauge('process_max_fds', 'Maximum number of open file descriptors, on Linux.', () => maxFiles);
}

/** Does not count the descriptor that `readdirSync` opens. */
function countOpenFiles(): number | undefined {
  try {
    return readdirSync('/proc/self/fd').length - 1;
  } catch {
    return undefined;
  }
}

function readMaxFiles(): number | undefined {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}
