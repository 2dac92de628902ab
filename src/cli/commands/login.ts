import { Sallyport } from '../../../sdk/src/sallyport.ts';
import { type Context, type Options, option, type StandaloneCommand } from '../command.ts';
import { Cancelled, ErrorAbout, UsageError } from '../errors.ts';
import { callVariables, parseUrl } from '../terminal/connection.ts';
import { parseSecret } from '../terminal/input.ts';
import { defaultProfile, readProfiles, writeProfiles } from '../terminal/profiles.ts';
import type { Terminal } from '../terminal/terminal.ts';

const profileOption = option(
  'profile PROFILE',
  `Name of the profile. [env: SALLYPORT_PROFILE, default: ${defaultProfile}]`,
);

export const commands: readonly StandaloneCommand[] = [
  {
    usage: 'login',
    standalone: true,
    options: [
      profileOption,
      option('url URL', 'URL of the service. Default: that of the profile, if it exists, or SALLYPORT_URL.'),
      option(
        'key-file FILE',
        'File with your key. Without it, the key is asked for or read from standard input.',
      ),
    ],
    summary: 'Store the URL and the key of a service as a profile.',
    details:
      'Checks the key first. The file is sallyport/profiles.json in XDG_CONFIG_HOME or ~/.config, with mode 0600. API commands use --profile; without it, options and then the environment; and if none of them has a URL or a key, the profile in SALLYPORT_PROFILE or `default`. The key of a profile is sent to its URL only.',
    examples: [
      'sallyport login --profile production --url https://sallyport.example',
      'sallyport login < data/management.key',
    ],
    run: login,
  },
  {
    usage: 'logout',
    standalone: true,
    options: [profileOption],
    summary: 'Remove a profile.',
    details: 'Its key stays valid: revoke it with `keys delete` or `keys revoke`.',
    examples: ['sallyport logout --profile production'],
    run: logout,
  },
];

async function login({ options, terminal, input, printResult }: Context): Promise<number> {
  const profile = profileOf(options, terminal);
  const profiles = readProfiles(terminal);
  const given = options.value('url') ?? profiles.get(profile)?.url;
  const url = parseUrl(
    given ?? (terminal.env.SALLYPORT_URL || callVariables[0].fallback),
    '--url (SALLYPORT_URL)',
  );
  const file = options.value('key-file') ?? (terminal.isTty.stdin ? undefined : '-');
  const text =
    file === undefined
      ? await terminal.prompt(`Key for ${url} (not shown): `, true)
      : await input.text(file, '--key-file');
  if (text === undefined) throw new Cancelled();
  const key = parseSecret(text, 'the key');
  try {
    // Every key may do this.
    await new Sallyport({ url, key }).ownPermissions();
  } catch (error) {
    throw new ErrorAbout(url, error);
  }
  await writeProfiles(terminal, profiles.set(profile, { url, key }));
  return printResult({ profile, url }, `stored profile ${profile} for ${url}`);
}

async function logout({ options, terminal, printResult }: Context): Promise<number> {
  const profile = profileOf(options, terminal);
  const profiles = readProfiles(terminal);
  if (!profiles.delete(profile)) throw new UsageError(`there is no profile "${profile}"`);
  await writeProfiles(terminal, profiles);
  return printResult({ removed: profile }, `removed profile ${profile}; its key is still valid`);
}

function profileOf(options: Options, { env }: Terminal): string {
  return options.value('profile') ?? (env.SALLYPORT_PROFILE || defaultProfile);
}
