/** The part of the package that the service uses, so that the types can be checked before it is installed. */
declare module 'openid-client' {
  interface Server {
    readonly issuer: string;
    readonly jwks_uri?: string;
    readonly userinfo_endpoint?: string;
    readonly token_endpoint_auth_methods_supported?: readonly string[];
  }
  export interface Configuration {
    serverMetadata(): Server;
  }
  export type ClientAuth = (server: Server, client: object, body: URLSearchParams, headers: Headers) => void;
  export function ClientSecretBasic(secret: string): ClientAuth;
  export function ClientSecretPost(secret: string): ClientAuth;
  export function allowInsecureRequests(configuration: Configuration): void;
  export function discovery(
    server: URL,
    clientId: string,
    metadata: undefined,
    authenticate: ClientAuth,
    options: { timeout: number; execute: ((configuration: Configuration) => void)[] },
  ): Promise<Configuration>;
  export function calculatePKCECodeChallenge(verifier: string): Promise<string>;
  export function buildAuthorizationUrl(
    configuration: Configuration,
    parameters: Record<string, string>,
  ): URL;
  export function authorizationCodeGrant(
    configuration: Configuration,
    url: URL,
    checks: { expectedState: string; expectedNonce: string; pkceCodeVerifier: string; idTokenExpected: true },
  ): Promise<{ id_token?: string; access_token: string; claims(): Record<string, unknown> | undefined }>;
  export function fetchUserInfo(
    configuration: Configuration,
    accessToken: string,
    subject: string,
  ): Promise<Record<string, unknown>>;
}
