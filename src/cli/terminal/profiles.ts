/** Profiles: the URL and the key of several installations, in a file that only its owner can read. */
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { UsageError } from '../errors.ts';
import { withReplacedFile } from './files.ts';
import type { Terminal } from './terminal.ts';

const File = z.record(z.string(), z.strictObject({ url: z.string(), key: z.string() }));
export type Profile = z.infer<typeof File>[string];
type Profiles = Map<string, Profile>;

export const defaultProfile = 'default';

/** The path of the file. Undefined without a home folder. */
function pathOf({ env }: Terminal): string | undefined {
  const folder = env.XDG_CONFIG_HOME || (env.HOME && join(env.HOME, '.config'));
  return folder ? join(folder, 'sallyport', 'profiles.json') : undefined;
}

/** All profiles by name. Throws UsageError if the file is invalid, or if other users can read it. */
export function readProfiles(terminal: Terminal): Profiles {
  const path = pathOf(terminal);
  const file = path === undefined ? undefined : statSync(path, { throwIfNoEntry: false });
  if (path === undefined || file === undefined) return new Map();
  if (process.getuid !== undefined && (file.mode & 0o077) !== 0)
    throw new UsageError(`${path} is readable by other users`, `chmod 600 ${path}`);
  try {
    return new Map(Object.entries(File.parse(JSON.parse(readFileSync(path, 'utf8')))));
  } catch {
    throw new UsageError(`${path} is not a file of profiles`, 'delete it and run `sallyport login`');
  }
}

/** Throws UsageError without a home folder. */
export async function writeProfiles(terminal: Terminal, profiles: Profiles): Promise<void> {
  const path = pathOf(terminal);
  if (path === undefined)
    throw new UsageError('there is no folder for profiles', 'set HOME or XDG_CONFIG_HOME');
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const text = JSON.stringify(Object.fromEntries(profiles), null, 2);
  await withReplacedFile(path, async (write) => write(`${text}\n`), 0o600);
}
