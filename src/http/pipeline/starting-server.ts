import { fail } from '../../domain/error.ts';
import type { Log } from '../../telemetry/log.ts';
import { problemResponse } from './problem.ts';
import { noConnections, RequestInfo } from './request-info.ts';

/**
 * Answers `/livez` while the service is starting, so that an orchestrator does not kill the process. Other requests get
 * 503. Returns undefined if the port is taken. Startup reports that error later, when it listens itself.
 */
export function listenWhileStarting(
  host: string,
  port: number,
  log: Log,
): { stop(): Promise<void> } | undefined {
  try {
    return Bun.serve({
      hostname: host,
      port,
      development: false,
      routes: { '/livez': Response.json({ status: 'ok' }) },
      fetch: (request) => {
        const starting = fail('unavailable', { detail: 'The service is starting.', expected: true });
        return problemResponse(starting, new RequestInfo(request, noConnections), log);
      },
    });
  } catch {
    return undefined;
  }
}
