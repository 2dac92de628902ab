/** The providers at which people can sign in to the console. */
import { readFileSync } from 'node:fs';
import { Secret } from '../domain/key.ts';
import { type Config, ConfigError, isSecureOrigin, settings } from './settings.ts';
import { words } from './values.ts';

export interface Provider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
}

export type SignInConfig = Pick<
  Config,
  | 'oidcIssuers'
  | 'oidcClientIds'
  | 'oidcClientSecret'
  | 'oidcClientSecretFile'
  | 'oidcScope'
  | 'publicUrl'
  | 'consoleSessionIdle'
  | 'consoleSessionMax'
  | 'consoleKeys'
>;

/** The providers in the settings. Throws `ConfigError`. */
export function configuredProviders(config: SignInConfig): readonly Provider[] {
  const { oidcIssuers: issuers, oidcClientIds: clientIds, publicUrl, consoleKeys } = config;
  const { oidcIssuers: issuer, oidcClientIds: clientId, consoleKeys: keys } = settings;
  if (consoleKeys === 'off' && issuers.length === 0)
    throw new ConfigError(
      `${keys.variable} must not be off without ${issuer.variable}: no one could sign in`,
    );
  if (clientIds.length !== issuers.length)
    throw new ConfigError(`${clientId.variable} must have as many values as ${issuer.variable}`);
  if (issuers.length === 0) return [];
  if (publicUrl === undefined || !isSecureOrigin(publicUrl))
    throw new ConfigError(
      `${issuer.variable} needs SALLYPORT_PUBLIC_URL as an https origin, such as https://keys.example.com`,
    );
  const { variable, secrets } = readSecrets(config);
  if (secrets.length !== issuers.length)
    throw new ConfigError(`${variable} must have as many secrets as ${issuer.variable} has issuers`);
  return issuers.map((each, at) => ({
    issuer: each,
    clientId: clientIds[at] as string,
    clientSecret: new Secret(secrets[at] as string),
  }));
}

function readSecrets({ oidcClientSecret, oidcClientSecretFile: file }: SignInConfig) {
  const { oidcClientSecret: inline, oidcClientSecretFile: inFile } = settings;
  if (file === undefined) return { variable: inline.variable, secrets: words(oidcClientSecret?.reveal()) };
  if (oidcClientSecret)
    throw new ConfigError(`${inline.variable} and ${inFile.variable} cannot both be set: unset one of them`);
  try {
    return { variable: inFile.variable, secrets: words(readFileSync(file, 'utf8')) };
  } catch (error) {
    throw new ConfigError(`${inFile.variable}: cannot read ${file}: ${(error as Error).message}`);
  }
}

/** Where the provider with this number, from 1 on, sends people back. */
export function redirectUri({ publicUrl }: Pick<SignInConfig, 'publicUrl'>, provider: number): string {
  return `${publicUrl}/console/api/callback/${provider}`;
}
