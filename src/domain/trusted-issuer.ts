/**
 * Issuers whose JWTs a workload can exchange for a key of an application (RFC 8693), and whose users can sign in to the
 * console.
 */
import { z } from 'zod';
import { line, mapOf, optional } from './common-fields.ts';
import type { Errors } from './error.ts';

export const maxIssuers = 10;
const maxClaims = 20;

/** Default and limits of the lifetime of an issued key, in seconds. */
const defaultLifetime = 900;
const minLifetime = 60;
const maxLifetime = 3600;

/** Milliseconds by which the clocks of the issuer and of the database may differ. */
export const clockTolerance = 30_000;

/** The longest lifetime of a JWT in milliseconds. A used JWT is remembered that long. */
const maxJwtLifetime = 24 * 3_600_000;

const maxPriority = 1000;

const httpsUrl = 'must be an https URL without credentials, query and fragment';

/** Plain HTTP is accepted only for loopback addresses. */
export function isIssuerUrl(text: string): boolean {
  if (!URL.canParse(text) || /[?#@\\\s]/.test(text)) return false;
  const { protocol, hostname } = new URL(text);
  if (protocol === 'https:') return true;
  return protocol === 'http:' && /^(127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}

const IssuerUrl = line(1, 500).refine(isIssuerUrl, httpsUrl);

const Claims = mapOf(maxClaims, line(1, 200), z.union([line(1, 500), z.boolean(), z.int()]))
  .refine(
    (claims) => Object.keys(claims).length > 0,
    'must not be empty: anyone with a JWT of the issuer could get a key',
  )
  .meta({
    type: 'object',
    additionalProperties: { type: ['string', 'boolean', 'integer'], minLength: 1, maxLength: 500 },
    minProperties: 1,
    maxProperties: maxClaims,
  });

export const TrustedIssuer = z
  .strictObject({
    issuer: IssuerUrl.describe(
      'The `iss` claim, exactly. Its keys are found through `/.well-known/openid-configuration`.',
    ),
    audience: line(1, 500).describe(
      'The `aud` claim, exactly. A JWT that has other audiences, too, is rejected.',
    ),
    claims: Claims.describe(
      `Claims that must be equal, 1 to ${maxClaims}, such as \`{"sub": "repo:acme/shop:ref:refs/heads/main"}\`. Values are strings, integers or booleans.`,
    ),
    once: optional(z.boolean()).describe(
      'Whether a JWT works once, by its `jti`. If absent, it does if it has a `jti`. `true` rejects a JWT without one.',
    ),
    lifetime: optional(z.int().min(minLifetime).max(maxLifetime)).describe(
      `Seconds for which a key is valid, ${minLifetime} to ${maxLifetime}. Default: ${defaultLifetime}.`,
    ),
    jwks_uri: optional(IssuerUrl).describe(
      'Where the keys of the issuer are, if they are not found on the host of the issuer.',
    ),
    sign_in_priority: optional(z.int().min(1).max(maxPriority)).describe(
      `Management applications only: the entry is for people who sign in to the console, and \`POST /oauth/token\` does not accept it. \`audience\` is then the client id of the console at the issuer. A claim that is a list must contain the value. \`email\` also needs \`email_verified\`. If entries of several applications accept a person, the one with the lowest number is used, 1 to ${maxPriority}.`,
    ),
  })
  .meta({ id: 'TrustedIssuer' });
export type TrustedIssuer = z.infer<typeof TrustedIssuer>;

export const TrustedIssuers = z.array(TrustedIssuer).max(maxIssuers);

export function issuerErrors(type: string, issuers: readonly TrustedIssuer[] = []): Errors {
  if (type === 'public' && issuers.length > 0)
    return {
      trusted_issuers: [
        'is only for private and management applications: the key of a public application is no secret',
      ],
    };
  return Object.fromEntries(
    issuers.flatMap((issuer, at) => {
      const problem = signInProblem(type, issuer);
      return problem === undefined ? [] : [[`trusted_issuers.${at}.sign_in_priority`, [problem]]];
    }),
  );
}

function signInProblem(type: string, entry: TrustedIssuer): string | undefined {
  if (entry.sign_in_priority === undefined) return undefined;
  if (type !== 'management') return 'is only for management applications';
  const other = (['once', 'lifetime', 'jwks_uri'] as const).find((name) => entry[name] !== undefined);
  return other && `cannot be combined with ${other}`;
}

/** The workload that gets a key. */
export interface Workload {
  readonly issuer: TrustedIssuer;
  readonly subject: string;
  /** Identifies a JWT that works once. */
  readonly jti: string | undefined;
  /** When the JWT expires, in milliseconds. */
  readonly expiresAt: number;
}

/**
 * Finds the entry for workloads that accepts the claims. Returns the reason if none does. The signature must be verified before or
 * after.
 */
export function matchIssuer(
  issuers: readonly TrustedIssuer[],
  payload: Readonly<Record<string, unknown>>,
  now: number,
): Workload | string {
  const ofIssuer = issuers.filter(
    ({ issuer, sign_in_priority }) => issuer === payload.iss && sign_in_priority === undefined,
  );
  if (ofIssuer.length === 0) return 'its issuer is not trusted';
  const forUs = ofIssuer.filter(({ audience }) => isOnlyAudience(payload.aud, audience));
  if (forUs.length === 0) return 'it is for another audience';
  const issuer = forUs.find(({ claims }) => hasClaims(payload, claims));
  if (!issuer) return `the claim ${differingClaim(payload, forUs)} differs`;
  const { sub, jti, exp } = payload;
  if (typeof sub !== 'string' || !subjectShape.test(sub)) return 'it has no sub of 1 to 255 characters';
  const problem = timeProblem(payload, now);
  if (problem !== undefined) return problem;
  const hasJti = jti !== undefined;
  if (hasJti && (typeof jti !== 'string' || jti === '')) return 'its jti is not a text';
  if (issuer.once && !hasJti) return 'it has no jti, and the issuer is trusted once per JWT';
  const once = issuer.once ?? hasJti;
  return { issuer, subject: sub, jti: once ? (jti as string) : undefined, expiresAt: (exp as number) * 1000 };
}

/** U+FFFD stands for bytes that are not UTF-8, and databases store it for half a surrogate pair. */
export const subjectShape = /^[^\p{Cc}\p{Cs}\u{fffd}]{1,255}$/u;

/** A JWT with several audiences could be replayed by one of the others. */
function isOnlyAudience(aud: unknown, audience: string): boolean {
  return Array.isArray(aud) ? aud.length === 1 && aud[0] === audience : aud === audience;
}

function hasClaims(payload: Readonly<Record<string, unknown>>, claims: TrustedIssuer['claims']): boolean {
  return Object.entries(claims).every(
    ([name, value]) => Object.hasOwn(payload, name) && payload[name] === value,
  );
}

type Listed = Pick<TrustedIssuer, 'issuer' | 'audience' | 'claims'> & {
  readonly sign_in_priority?: number | undefined;
};

/** The entries for people who sign in to the console, in the order in which they are tried. */
export function signInEntries<
  E extends Listed,
  A extends { readonly trusted_issuers?: readonly E[] | undefined },
>(applications: readonly (A & { readonly trusted_issuers?: readonly E[] | undefined })[]) {
  return applications
    .flatMap((application) => (application.trusted_issuers ?? []).map((entry) => ({ application, entry })))
    .filter(({ entry }) => entry.sign_in_priority !== undefined)
    .sort((a, b) => (a.entry.sign_in_priority ?? 0) - (b.entry.sign_in_priority ?? 0));
}

/** Whether the claims about a person are those of the entry. Anyone can enter the address of another person as `email`. */
export function acceptsPerson(
  { claims }: Pick<TrustedIssuer, 'claims'>,
  person: Readonly<Record<string, unknown>>,
): boolean {
  const isEqual = ([name, value]: [string, unknown]) => {
    const given = Object.hasOwn(person, name) ? person[name] : undefined;
    return Array.isArray(given) ? given.includes(value) : given === value;
  };
  return Object.entries(claims).every(isEqual) && (!('email' in claims) || person.email_verified === true);
}

function differingClaim(
  payload: Readonly<Record<string, unknown>>,
  issuers: readonly TrustedIssuer[],
): string {
  const [claims] = issuers.map((issuer) => Object.entries(issuer.claims));
  return claims?.find(([name, value]) => payload[name] !== value)?.[0] ?? '';
}

function timeProblem({ exp, nbf, iat }: Readonly<Record<string, unknown>>, now: number): string | undefined {
  if (typeof exp !== 'number') return 'it has no exp';
  if (exp * 1000 + clockTolerance <= now) return 'it has expired';
  if (exp * 1000 > now + maxJwtLifetime) return 'it is valid for more than a day';
  for (const [name, time] of Object.entries({ nbf, iat })) {
    if (time === undefined) continue;
    if (typeof time !== 'number') return `its ${name} is not a number`;
    if (time * 1000 - clockTolerance > now) return `its ${name} is in the future`;
  }
  return undefined;
}

/** When a new key expires: never after its application, or after the longest lifetime that the tenant allows. */
export function keyExpiry(
  lifetime: number | undefined,
  now: number,
  ...limits: readonly (number | undefined)[]
): number {
  return Math.min(
    now + (lifetime ?? defaultLifetime) * 1000,
    ...limits.filter((limit) => limit !== undefined),
  );
}
