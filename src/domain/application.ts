import { z } from 'zod';
import {
  changeFields,
  DateTime,
  Flag,
  Name,
  normalizedField,
  Origins,
  optional,
  parseDateTime,
  readOnly,
  readOnlyErrorsOf,
  Text,
  Timestamp,
  timestamp,
  Uuid,
} from './common-fields.ts';
import { type Errors, throwIfInvalid } from './error.ts';
import { type Grants, grantErrors, grantFields } from './grant.ts';
import { Labels, maxLabels } from './labels.ts';
import { latestExpiry, newExpiry } from './lifetime.ts';
import { maxNetworks, Networks, networkErrors } from './network.ts';
import { Permission } from './permission.ts';
import { Rule } from './rule.ts';
import { issuerErrors, maxIssuers, TrustedIssuer, TrustedIssuers } from './trusted-issuer.ts';

export const ApplicationType = z
  .enum(['private', 'public', 'management'])
  .describe(
    '`private`: for backends that can store a key secretly. `public`: for browsers and mobile apps. `management`: for managing the service.',
  );
export type ApplicationType = z.infer<typeof ApplicationType>;

/** A setting of an application, beside its name, type, grants and expiry. */
function setting<Stored extends z.ZodType, Sent extends z.ZodType>(declaration: {
  readonly stored: Stored;
  readonly sent: Sent;
  /** Its meaning, in responses, when it is created and when it is updated. */
  readonly described: readonly [stored: string, create: string, update: string];
  /** Whether it decides who may use the keys of the application, or how. */
  readonly limitsAccess: boolean;
  /** A line for each part of a value. Equal values have equal lines, in any order. */
  readonly lines: (stored: z.infer<Stored>) => readonly string[];
  /** Errors of values that an application of this type must not have. */
  readonly errors: (type: string, sent: z.infer<Sent>) => Errors;
}) {
  const { stored, sent, described, ...rest } = declaration;
  const [text, create, update] = described;
  return {
    ...rest,
    isFlag: sent instanceof z.ZodBoolean,
    stored: stored.optional().describe(text),
    create: optional(sent).describe(create),
    update: optional(sent).describe(update),
  };
}

/** A new setting is declared here. It also needs a column of its name, and a place in the console and the CLI. */
const settings = {
  allowed_origins: setting({
    stored: z.array(z.string()),
    sent: Origins,
    described: [
      'Origins whose pages may use its key in a browser. Absent if every origin may.',
      'Public applications only: origins whose pages may use its key and the keys of its sessions in a browser, such as `https://shop.example`. If absent or empty, every origin may.',
      'Public applications only: origins whose pages may use its key and the keys of its sessions in a browser. If absent, they are not changed; if empty, every origin may.',
    ],
    limitsAccess: true,
    lines: (origins) => origins.map((origin) => `origin ${origin}`),
    errors: (type, { length }) =>
      type === 'public' || length === 0
        ? {}
        : {
            allowed_origins: [
              `is only for public applications: the key of a ${type} application must not be used in a browser`,
            ],
          },
  }),
  require_bound_sessions: setting({
    stored: Flag,
    sent: z.boolean(),
    described: [
      'Whether it can create only bound sessions. Absent if it can create others, too.',
      'Public applications only: whether `POST /sessions` requires a DPoP proof, so that all of its sessions are bound. Default: `false`.',
      'Public applications only: whether `POST /sessions` requires a DPoP proof. If absent, it is not changed. Existing sessions are not affected.',
    ],
    limitsAccess: true,
    lines: (isRequired) => (isRequired ? ['bound sessions required'] : []),
    errors: (type, isRequired) =>
      type === 'public' || !isRequired
        ? {}
        : {
            require_bound_sessions: [
              `is only for public applications: a ${type} application cannot create sessions`,
            ],
          },
  }),
  allowed_networks: setting({
    stored: z.array(z.string()),
    sent: Networks,
    described: [
      'Networks from which its keys may be used. Absent if they may be used from everywhere.',
      `Private and management applications only: networks in CIDR notation from which its keys may be used, at most ${maxNetworks}, such as \`10.0.0.0/8\`. If absent or empty, they may be used from everywhere.`,
      `Private and management applications only: networks in CIDR notation from which its keys may be used, at most ${maxNetworks}. If absent, they are not changed; if empty, the keys may be used from everywhere. Must contain your own address if you update the application of your key.`,
    ],
    limitsAccess: true,
    lines: (networks) => networks.map((network) => `network ${network}`),
    errors: networkErrors,
  }),
  trusted_issuers: setting({
    stored: z.array(TrustedIssuer),
    sent: TrustedIssuers,
    described: [
      'Issuers whose JWTs can be exchanged for a key of it. Absent if it trusts none.',
      `Private and management applications only: issuers whose JWTs can be exchanged for a key of it at \`POST /oauth/token\`, at most ${maxIssuers}. If absent or empty, it trusts none.`,
      `Private and management applications only: issuers whose JWTs can be exchanged for a key of it, at most ${maxIssuers}. If absent, they are not changed. Keys that were issued for an entry end when it is changed or removed.`,
    ],
    limitsAccess: true,
    lines: (issuers) => issuers.map((issuer) => `trusted issuer ${issuerLine(issuer)}`),
    errors: issuerErrors,
  }),
  labels: setting({
    stored: z.record(z.string(), z.string()),
    sent: Labels,
    described: [
      'Labels, which group applications. They grant no access. Absent if it has none.',
      `Labels, which group applications, such as \`{"team": "payments"}\`; at most ${maxLabels}. They grant no access. Names have at most 63 lower-case letters, digits, and \`._/-\`, and start with a letter. Values have 1 to 100 letters, digits, and \`._/@:-\`, and start with a letter or digit.`,
      'Labels, which group applications. If absent, they are not changed; if empty, they are removed. They grant no access.',
    ],
    limitsAccess: false,
    lines: (labels) => Object.entries(labels).map(([name, value]) => `label ${name}=${value}`),
    errors: () => ({}),
  }),
};
type Settings = typeof settings;
export type Setting = keyof Settings;
export const settingNames = Object.keys(settings) as Setting[];
/** The settings that are true or absent. */
export const flagNames: readonly Setting[] = settingNames.filter((name) => settings[name].isFlag);
export const accessSettings = settingNames.filter((name) => settings[name].limitsAccess);

/** The schemas of all settings, in one of the places where a setting is described. */
export function schemasFor<Place extends 'stored' | 'create' | 'update'>(place: Place) {
  const schemas = settingNames.map((name) => [name, settings[name][place]]);
  return Object.fromEntries(schemas) as { [Name in Setting]: Settings[Name][Place] };
}

/** An application in responses, without its key. */
export const Application = z
  .object({
    id: Uuid.describe('Unique identifier of the application.'),
    tenant_id: Uuid.describe('The tenant that the application belongs to.'),
    name: Text.describe('Display name.'),
    type: ApplicationType,
    permissions: z
      .array(Permission)
      .describe(
        'Permissions of its keys, without a rule. They apply to every container with the transform `mask`.',
      ),
    rules: z
      .array(Rule)
      .describe('Access rules: permissions per container, with the transform applied to the data.'),
    ...schemasFor('stored'),
    ...changeFields,
    quarantined_at: Timestamp.optional().describe(
      'Since when it is in quarantine: it can change nothing, and it reads tokens without their data. Absent if it is not.',
    ),
    last_used_at: Timestamp.optional().describe(
      'When one of its keys or sessions was last used, to the minute. Absent if never.',
    ),
  })
  .meta({ id: 'Application' });
export type Application = z.infer<typeof Application>;

const keyField = {
  key: Text.describe(
    'The key. It is returned only here and cannot be retrieved later: only a hash is stored.',
  ),
};

/** Only the responses of create and regenerate contain the key. */
export const ApplicationWithKey = Application.extend({
  ...keyField,
  key_expires_at: Timestamp.optional().describe(
    'When the key expires, because the tenant has a maximum lifetime. Absent if the application expires earlier.',
  ),
}).meta({ id: 'ApplicationWithKey' });

/** Enough to rotate: the current key, its successor and a spare. */
export const maxKeys = 3;

export const ApplicationKey = z
  .object({
    id: Uuid.describe('Unique identifier of the key.'),
    ending: Text.describe('The last four characters of the key, to tell keys apart.'),
    created_by: Uuid.optional().describe('The application that created it. Absent if unknown.'),
    created_at: Timestamp.describe('When it was created.'),
    last_used_at: Timestamp.optional().describe('When it was last used, to the minute. Absent if never.'),
    expires_at: Timestamp.optional().describe(
      'When it expires. Absent if it expires with the application, or never.',
    ),
  })
  .meta({ id: 'ApplicationKey' });
export type ApplicationKey = z.infer<typeof ApplicationKey>;

export const ApplicationKeyCreated = ApplicationKey.extend(keyField).meta({ id: 'ApplicationKeyCreated' });

const oldKeysExpireAt = optional(DateTime);

export const ApplicationKeyCreate = z
  .strictObject({
    expires_at: optional(DateTime).describe(
      'When the key expires. Must be in the future, and not later than the application expires. If absent, it expires with the application.',
    ),
    old_keys_expire_at: oldKeysExpireAt.describe(
      'When the existing keys expire, if they do not expire earlier. Must be in the future. If absent, they are not changed.',
    ),
  })
  .meta({ id: 'ApplicationKeyCreate' });

export const ApplicationRegenerate = z
  .strictObject({
    old_keys_expire_at: oldKeysExpireAt.describe(
      'When the existing keys expire, if they do not expire earlier. Must be in the future. If absent, they are revoked immediately.',
    ),
  })
  .meta({ id: 'ApplicationRegenerate' });

export const ApplicationCreate = z
  .strictObject({
    name: Name.describe('Display name, without control characters or bidirectional control characters.'),
    type: ApplicationType,
    ...grantFields,
    ...schemasFor('create'),
    expires_at: optional(DateTime).describe(
      'When the application expires. Must be in the future. If absent, it never expires, unless the tenant has a maximum lifetime.',
    ),
  })
  .meta({ id: 'ApplicationCreate' });
export type ApplicationCreate = z.infer<typeof ApplicationCreate>;

const ReadOnlyId = readOnly({ type: 'string', format: 'uuid' });
const ReadOnlyDateTime = readOnly({ type: 'string', format: 'date-time' });
const readOnlyFields = {
  id: ReadOnlyId,
  tenant_id: ReadOnlyId,
  type: readOnly({ type: 'string', enum: ApplicationType.options }),
  created_by: ReadOnlyId,
  created_at: ReadOnlyDateTime,
  modified_by: ReadOnlyId,
  modified_at: ReadOnlyDateTime,
  quarantined_at: ReadOnlyDateTime,
};

/**
 * The value that removes the expiry. `null` means absent, because some clients send null for fields they do not set.
 */
export const never = 'never';

/** A new expiry: milliseconds since 1970, or `never`. */
export const ExpiryChange = z
  .string()
  .transform((text, context): number | typeof never => {
    const time = text === never ? never : parseDateTime(text);
    if (time !== undefined) return time;
    context.addIssue('must be an ISO 8601 date-time, such as 2030-01-31T12:00:00Z, or never');
    return z.NEVER;
  })
  .meta({ examples: ['2030-01-31T12:00:00Z', never] });

export const ApplicationUpdate = z
  .strictObject({
    name: Name.describe('Display name, without control characters or bidirectional control characters.'),
    ...grantFields,
    ...schemasFor('update'),
    expires_at: optional(ExpiryChange).describe(
      'When the application expires. Must be in the future. `never` removes the expiry; if absent, it is not changed.',
    ),
    ...readOnlyFields,
    last_used_at: ReadOnlyDateTime.describe(
      'Read-only. Any value is ignored, since it changes with every use.',
    ),
  })
  .meta({ id: 'ApplicationUpdate' });
export type ApplicationUpdate = z.infer<typeof ApplicationUpdate>;

/**
 * The `expires_at` after an update, as responses show it. Throws `validation_failed` if a new expiry is not in the
 * future or exceeds the maximum lifetime of the tenant.
 */
export function expiryAfter(
  current: Application,
  sent: ApplicationUpdate,
  caller: Parameters<typeof newExpiry>[1],
): string | undefined {
  if (sent.expires_at === undefined) return current.expires_at;
  const expiry = sent.expires_at === never ? undefined : timestamp(sent.expires_at);
  if (expiry === current.expires_at) return expiry;
  if (sent.expires_at !== never) newExpiry(sent.expires_at, caller);
  else if (latestExpiry(caller) !== undefined)
    throwIfInvalid({ expires_at: ['must not be never, because the tenant has a maximum lifetime'] });
  return expiry;
}

/** Errors for read-only fields whose value differs from the stored one. */
export function readOnlyErrors(current: Application, sent: ApplicationUpdate): Errors {
  const fields = Object.keys(readOnlyFields) as (keyof typeof readOnlyFields)[];
  const differing = fields.filter(
    (field) => sent[field] !== undefined && normalizedField(field, sent[field]) !== current[field],
  );
  return readOnlyErrorsOf(differing);
}

type SentSettings = Partial<Pick<ApplicationCreate, Setting>>;

/** Errors of grants and settings that an application of this type must not have. */
export function accessErrors(type: ApplicationType, sent: Grants & SentSettings): Errors {
  const errors = settingNames.map((name) => {
    const value = sent[name];
    return value === undefined
      ? {}
      : (settings[name].errors as (type: string, sent: unknown) => Errors)(type, value);
  });
  return Object.assign(grantErrors(type, sent), ...errors);
}

/** The lines of all settings. */
export function settingLines(application: Partial<Record<Setting, unknown>>): string[] {
  return settingNames.flatMap((name) => {
    const value = application[name];
    return value === undefined ? [] : (settings[name].lines as (value: unknown) => string[])(value);
  });
}

/** Fields and claims in the order of their names. */
function issuerLine(issuer: object): string {
  const fields = Object.entries(issuer).filter(([, value]) => value !== undefined);
  return fields
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}=${typeof value === 'object' ? `(${issuerLine(value)})` : value}`)
    .join(' ');
}

/** The settings after an update, without those that are not set. */
export function settingsAfter(current: Application, sent: SentSettings): Pick<Application, Setting> {
  const values = settingNames.map((name) => [name, sent[name] ?? current[name]] as const);
  return Object.fromEntries(values.filter(([, value]) => value));
}

/** The fields that decide what an application may do. */
export const accessFields = ['permissions', 'rules', ...accessSettings, 'expires_at'] as const;
