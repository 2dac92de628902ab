import { SallyportError } from '../../../sdk/src/errors.ts';
import { Sallyport } from '../../../sdk/src/sallyport.ts';
import type { Config } from '../../config/settings.ts';
import type { Invocation, LocalCommand } from '../command.ts';

export const commands: LocalCommand = {
  usage: 'health',
  summary: 'Check that the local service is ready.',
  details:
    'For container health checks. Exits with 0 if it is ready, with 1 if not. Use `sallyport doctor` to find the cause.',
  examples: ['sallyport health'],
  run: health,
};

const timeout = 3000;

async function health({ config, printResult }: Invocation): Promise<number> {
  const url = `http://${localHost(config)}:${config.port}`;
  const reason = await new Sallyport({ url, timeout, retries: 0 }).ready().then(
    () => undefined,
    (error) => {
      if (error instanceof SallyportError) return error.message;
      throw error;
    },
  );
  if (reason === undefined) return printResult({ url, ready: true }, `${url} is ready`);
  return printResult({ url, ready: false, reason }, `${url} is not ready: ${reason}`, 1);
}

/** Replaces an address that means all interfaces with the loopback address. */
function localHost({ host }: Config): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}
