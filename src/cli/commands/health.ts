import { SallyportError } from '../../../sdk/src/errors.ts';
import { Sallyport } from '../../../sdk/src/sallyport.ts';
import type { Config } from '../../config.ts';
import type { Invocation, LocalCommand } from '../command.ts';

export const healthCommand: LocalCommand = {
  words: ['health'],
  takes: [],
  summary: 'Check that the local service is ready.',
  details: 'For container health checks. Exits with 0 if it is ready, with 1 if not.',
  examples: ['sallyport health'],
  run: health,
};

const patience = 3000;

async function health({ config, json, print }: Invocation): Promise<number> {
  const url = `http://${nearby(config)}:${config.port}`;
  const why = await new Sallyport({ url, timeout: patience, retries: 0 }).ready().then(
    () => undefined,
    (error) => {
      if (error instanceof SallyportError) return error.message;
      throw error;
    },
  );
  if (json) print(JSON.stringify({ url, ready: why === undefined, ...(why !== undefined && { why }) }));
  else print(why === undefined ? `${url} is ready` : `${url} is not ready: ${why}`);
  return why === undefined ? 0 : 1;
}

/** A service that listens on every address is asked on this machine's own. */
function nearby({ host }: Config): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}
