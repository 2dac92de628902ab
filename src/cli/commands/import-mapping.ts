/** Converts applications and tokens of another vault to those of Sallyport. */
import type { TokenCreate as TokenBody } from '../../../sdk/src/sallyport.ts';
import { ApplicationCreate, accessErrors } from '../../domain/application.ts';
import { type Mask, MaskError, renderMask } from '../../domain/mask.ts';
import { canonicalContainer } from '../../domain/rule.ts';
import { defaultContainer, isObject, TokenCreate } from '../../domain/token.ts';
import { check } from '../../domain/validate.ts';
import { UsageError } from '../errors.ts';
import type { Fault, Origin, SourceItem, SourceRecord } from './import-source.ts';

/** Translates names of the source to names in Sallyport. */
export interface Mapping {
  /** Old name → new name. An empty new name drops the permission. */
  readonly permissions: ReadonlyMap<string, string>;
  /** Old container in canonical form → new container. The longest old containers come first. */
  readonly containers: readonly (readonly [from: string, to: string])[];
  /** Whether a token with several containers is stored in the first one. Otherwise such a token is an error. */
  readonly firstContainer: boolean;
}

export function parseMapping(
  permissions: readonly string[] = [],
  containers: readonly string[] = [],
  firstContainer = false,
): Mapping {
  const pairs = (option: string, texts: readonly string[]) =>
    texts.map((text): [string, string] => {
      const at = text.indexOf('=');
      if (at < 1) throw new UsageError(`${option} must be OLD=NEW, not "${text}"`);
      return [text.slice(0, at), text.slice(at + 1)];
    });
  const mapped = pairs('--map-container', containers).map(([from, to]): [string, string] => {
    if (to === '') throw new UsageError(`--map-container needs a new container for ${from}`);
    return [canonicalContainer(from), to];
  });
  return {
    permissions: new Map(pairs('--map-permission', permissions)),
    containers: mapped.toSorted(([a], [b]) => b.length - a.length),
    firstContainer,
  };
}

function mapContainer(container: string, { containers }: Mapping): string {
  const canonical = canonicalContainer(container);
  const found = containers.find(([from]) => canonical.startsWith(from));
  if (!found) return container;
  const [from, to] = found;
  const opened = container.startsWith('/') ? container : `/${container}`;
  return `${to.replace(/\/+$/, '')}/${opened.slice(from.length).replace(/\/*$/, '/')}`.replace(/\/+$/, '/');
}

/** Fields that are not copied, because Sallyport sets them itself. */
const setByTarget = [
  'id',
  'key',
  'tenant_id',
  'created_by',
  'created_at',
  'modified_by',
  'modified_at',
  'last_used_at',
];

/** Names of fields that have a value and are not copied, such as `fingerprint`. */
function fieldsNotCopied(record: SourceRecord, copied: readonly string[]): string[] {
  return Object.keys(record).filter(
    (field) => !copied.includes(field) && !setByTarget.includes(field) && !isEmpty(record[field]),
  );
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

export type MappedApplication = Origin &
  (
    | Fault
    | {
        readonly application: ApplicationCreate;
        readonly notCopied: readonly string[];
        /** Names of permissions that the mapping dropped. */
        readonly dropped: readonly string[];
      }
  );

const ruleFields = [
  ...['description', 'priority', 'container', 'transform', 'permissions'],
  ...['require_purpose', 'defaults'],
];

export function mapApplication(item: SourceItem, mapping: Mapping): MappedApplication {
  if ('error' in item) return item;
  const { record, ...found } = item;
  const origin =
    typeof record.name === 'string'
      ? { ...found, name: record.name, place: `application "${record.name}"` }
      : { ...found, place: `application ${found.place}` };
  const dropped: string[] = [];
  const mapPermissions = (names: unknown): unknown =>
    Array.isArray(names)
      ? names.flatMap((name) => {
          const mapped = mapping.permissions.get(name) ?? name;
          if (mapped === '') dropped.push(name);
          return mapped === '' ? [] : [mapped];
        })
      : names;
  const ruleRecords = Array.isArray(record.rules) ? record.rules.filter(isObject) : [];
  const rules = ruleRecords
    .map((rule) => ({
      ...pick(rule, ruleFields),
      permissions: mapPermissions(rule.permissions),
      ...(typeof rule.container === 'string' && { container: mapContainer(rule.container, mapping) }),
    }))
    .filter(({ permissions }) => !(Array.isArray(permissions) && permissions.length === 0));
  const body = {
    ...pick(record, ['name', 'type', 'allowed_origins', 'expires_at']),
    permissions: mapPermissions(record.permissions ?? []),
    rules: Array.isArray(record.rules) || isEmpty(record.rules) ? rules : record.rules,
  };
  const checked = check(ApplicationCreate, body);
  if ('faults' in checked) return { ...origin, ...invalid(checked.faults) };
  const application = checked.data;
  const errors = accessErrors(application.type, application);
  const problems = Object.entries(errors).map(([path, messages]) => `${path} ${messages.join(', ')}`);
  if (problems.length > 0) return { ...origin, code: 'validation_failed', error: problems.join('; ') };
  const notCopied = [
    ...fieldsNotCopied(record, ['name', 'type', 'permissions', 'rules', 'allowed_origins', 'expires_at']),
    ...ruleRecords.flatMap((rule) => fieldsNotCopied(rule, ruleFields).map((field) => `rules.${field}`)),
  ];
  return { ...origin, application, notCopied, dropped };
}

export type MappedToken = Origin &
  (
    | Fault
    | { readonly expired: true }
    | {
        readonly token: TokenBody & { readonly id: string; readonly container: string };
        /** The masked value, if there is a mask. */
        readonly masked: unknown;
        readonly notCopied: readonly string[];
        readonly hasDefaultContainer: boolean;
      }
  );

const tokenFields = ['type', 'data', 'mask', 'search', 'metadata', 'max_uses', 'expires_at'];

export function mapToken(item: SourceItem, mapping: Mapping, now: number): MappedToken {
  const place = item.place.startsWith('line ') ? item.place : `token ${item.place}`;
  if ('error' in item) return { ...item, place };
  const { record, ...found } = item;
  const origin = { ...found, place };
  const named = containerOf(record, mapping);
  if ('error' in named) return { ...origin, ...named };
  if (typeof record.id !== 'string')
    return {
      ...origin,
      code: 'id_missing',
      error: 'has no id: add one, so that the import can be repeated',
    };
  if (record.data === undefined || record.data === null)
    return {
      ...origin,
      code: 'data_missing',
      error: 'has no data: the source redacts it, so its key needs transform reveal',
    };
  // Responses of Sallyport count uses. They contain the masked value, which must not be stored as data.
  if (record.uses !== undefined)
    return { ...origin, code: 'data_missing', error: 'has max_uses: no key can read its data' };
  const container = mapContainer(named.container ?? defaultContainer, mapping);
  const fields = pick(record, tokenFields);
  const body = { id: record.id, ...fields, container };
  const checked = check(TokenCreate, body);
  if ('faults' in checked) return { ...origin, ...invalid(checked.faults) };
  const { expires_at, mask, data } = checked.data;
  if (expires_at !== undefined && expires_at <= now) return { ...origin, expired: true };
  const rendered = mask === undefined ? { masked: undefined } : render(mask, data.value);
  if ('error' in rendered) return { ...origin, ...rendered };
  return {
    ...origin,
    token: body as TokenBody & { id: string; container: string },
    masked: rendered.masked,
    notCopied: fieldsNotCopied(record, [...tokenFields, 'container', 'containers']),
    hasDefaultContainer: named.container === undefined,
  };
}

/** `container`, or the only entry of `containers`. */
function containerOf(
  { container, containers }: SourceRecord,
  { firstContainer }: Mapping,
): { container: string | undefined } | Fault {
  const all = isEmpty(containers) ? [] : [containers].flat();
  const named = [...new Set([...(isEmpty(container) ? [] : [container]), ...all])];
  if (!named.every((name) => typeof name === 'string'))
    return { code: 'validation_failed', error: 'containers must be strings' };
  if (named.length > 1 && !firstContainer)
    return {
      code: 'several_containers',
      error: `is in ${named.length} containers (${named.join(', ')}): pass --first-container to use the first`,
    };
  return { container: named[0] };
}

function render(mask: Mask, data: unknown): { masked: unknown } | Fault {
  try {
    return { masked: renderMask(mask, data) };
  } catch (error) {
    if (!(error instanceof MaskError)) throw error;
    return {
      code: 'mask_failed',
      error: `mask ${error.message}; the source may have returned masked data`,
    };
  }
}

function invalid(
  faults: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[],
): Fault {
  const error = faults.map(({ path, message }) => `${path.join('.')} ${message}`).join('; ');
  return { code: 'validation_failed', error };
}

/** The listed fields that are present and not null. */
function pick(record: SourceRecord, fields: readonly string[]): Record<string, unknown> {
  const present = fields.filter((field) => record[field] !== undefined && record[field] !== null);
  return Object.fromEntries(present.map((field) => [field, record[field]]));
}
