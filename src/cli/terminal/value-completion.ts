/** Values for shell completion: application names from the service, and the built-in permissions. */
import { Sallyport } from '../../../sdk/src/sallyport.ts';
import { builtIn, descriptionOf } from '../../domain/permission.ts';
import type { Options } from '../command.ts';
import { keyOf, serviceUrl } from './connection.ts';
import { Input } from './input.ts';
import type { Terminal } from './terminal.ts';

/** Maximum number of milliseconds that a shell waits for names. */
const timeout = 2000;

/**
 * Lines of the form "value TAB description" for a placeholder such as APP. `words` is the whole command line. Returns
 * an empty list if the service cannot be reached.
 */
export async function suggestValues(
  placeholder: string,
  typed: string,
  words: readonly string[],
  terminal: Terminal,
): Promise<string[]> {
  if (placeholder === 'PERMISSION') return builtIn.map((name) => `${name}\t${descriptionOf(name)}`);
  if (placeholder !== 'APP') return [];
  try {
    return await applicationNames(typed, optionsIn(words), terminal);
  } catch {
    return [];
  }
}

async function applicationNames(typed: string, options: Options, terminal: Terminal): Promise<string[]> {
  // The key cannot come from standard input, which is the user's terminal.
  if (options.on('key-stdin') || options.value('key-file') === '-') return [];
  const url = serviceUrl(options, terminal);
  const key = await keyOf(options, terminal, new Input(terminal));
  const service = new Sallyport({ url, key, timeout, retries: 0 });
  const { data } = await service.applications.list({ size: 100, ...(typed !== '' && { name: typed }) });
  return data.map(({ name, type, id }) => `${name}\t${type} ${id}`);
}

/** The options of an incomplete command line. */
function optionsIn(words: readonly string[]): Options {
  const value = (name: string) => {
    const at = words.indexOf(`--${name}`);
    const joined = words.find((word) => word.startsWith(`--${name}=`));
    return at >= 0 ? words[at + 1] : joined?.slice(name.length + 3);
  };
  return { on: (name) => words.includes(`--${name}`), value, values: () => undefined };
}
