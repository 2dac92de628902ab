/** Updates an application, or previews the update. */
import { z } from 'zod';
import { Impact } from '../../domain/access/impact.ts';
import {
  type Application,
  ApplicationUpdate,
  Application as ApplicationView,
  accessErrors,
  expiryAfter,
  never,
  readOnlyErrors,
  settingNames,
  settingsAfter,
} from '../../domain/application.ts';
import { difference } from '../../domain/audit.ts';
import { type Errors, orNotFound, throwIfInvalid } from '../../domain/error.ts';
import { endErrors, permissionsIn } from '../../domain/grant.ts';
import { networkMatcher } from '../../domain/network.ts';
import { compilePolicy } from '../../domain/policy.ts';
import { changeBy, denyEscalation, denyOutliving, mustHold, type Principal } from '../../domain/principal.ts';
import { versionOf } from '../../domain/row-version.ts';
import { currentRules, type Rule } from '../../domain/rule.ts';
import { integer } from '../pipeline/pagination.ts';
import { type Call, changeEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { impactOf } from './access/impact.ts';
import { applicationReply, entityOf, params } from './applications.ts';
import { withDestinationIds } from './destinations.ts';

const day = 24 * 60 * 60_000;
const defaultDays = 30;

const UpdateQuery = z
  .strictObject({
    dry_run: z
      .enum(['true', 'false'], 'must be true or false')
      .transform((text) => text === 'true')
      .optional()
      .meta({
        type: 'boolean',
        default: false,
        description: 'Whether to change nothing, and to return what the update would change.',
      }),
    days: integer(
      1,
      365,
      defaultDays,
      'With `dry_run`: for how many days back recorded reads are decided again.',
    ),
  })
  .refine(({ dry_run, days }) => dry_run || days === undefined, {
    path: ['days'],
    error: 'is only for dry_run=true',
  });

export const updateApplication = changeEndpoint({
  name: 'updateApplication',
  mayTakeLong: true,
  tag: 'Applications',
  summary: 'Update an application',
  description:
    'Replaces the name, permissions and rules, and the allowed origins, `require_bound_sessions`, the allowed networks, the trusted issuers, the labels and the expiry if you send them. You can send read-only fields back unchanged. The update applies immediately to all keys of the application. Your key must hold every management permission that the application has before or after the update. With `dry_run=true`, the response says what the update would change, without making it; this also requires `access:review`.',
  params,
  query: UpdateQuery,
  body: ApplicationUpdate,
  bodyExample: example.applicationUpdate,
  replies: {
    200: reply(
      'The updated application, or with `dry_run` the impact of the update.',
      z.union([ApplicationView, Impact]),
      example.applicationUpdated,
    ),
  },
  failures: ['grant_not_held', 'not_found'],
  etag: 'both',
  preview: async (call, { store, usage, trail, longWork }) => {
    const { principal, params, query } = call;
    mustHold(principal, 'access:review');
    usage.record(principal, 'access:review');
    const current = orNotFound(await store.applications.get(principal.tenantId, params.id));
    const { permissions, rules } = updatedFields(call, current, await sentRules(call, store));
    const update = {
      tenantId: principal.tenantId,
      applicationId: params.id,
      before: compilePolicy(current),
      after: compilePolicy({ permissions, rules }),
    };
    const run = longWork.for(principal);
    const impact = await impactOf(store, run, update, {
      since: principal.now - (query.days ?? defaultDays) * day,
      auditedReads: trail.reads,
      isQuarantined: current.quarantined_at !== undefined,
    });
    return { status: 200, body: impact };
  },
  handle: async (call, { store }) => {
    const { principal, params } = call;
    const rules = await sentRules(call, store);
    let before: Application | undefined;
    const revise = (current: Application, stored: Application) => {
      before = stored;
      return updatedFields(call, current, rules);
    };
    const change = changeBy(principal);
    const after = orNotFound(await store.applications.update(principal.tenantId, params.id, change, revise));
    const fields = ['name', 'permissions', 'rules', ...settingNames, 'expires_at'] as const;
    const changed = difference(orNotFound(before), after, fields);
    return { ...applicationReply(after), entity: entityOf(params.id), difference: changed };
  },
});

/** The rules in the request that have not ended, with ids of destinations. */
function sentRules(
  { principal, body }: Call<unknown, unknown, ApplicationUpdate>,
  store: Parameters<typeof withDestinationIds>[0],
): Promise<Rule[]> {
  return withDestinationIds(store, principal.tenantId, currentRules(body.rules, principal.now));
}

/**
 * The fields after the update. Throws `grant_not_held` if the caller may not grant them, then `changed_meanwhile` or
 * `validation_failed`.
 */
function updatedFields(call: Call<unknown, unknown, ApplicationUpdate>, current: Application, rules: Rule[]) {
  const { principal, requireMatch, requestInfo } = call;
  const body = { ...call.body, rules: currentRules(call.body.rules, principal.now) };
  denyEscalation(principal, current, body);
  const settings = settingsAfter(current, body);
  // New issuers can issue keys, which gives away also what the application had before.
  const isKept = JSON.stringify(settings.trusted_issuers) === JSON.stringify(current.trusted_issuers);
  const end = body.expires_at === never ? undefined : (body.expires_at ?? current.expires_at);
  const kept = isKept ? { grants: current, end: current.expires_at } : undefined;
  denyOutliving(principal, { grants: body, end }, kept);
  requireMatch(versionOf(current));
  throwIfInvalid({
    ...readOnlyErrors(current, body),
    ...accessErrors(current.type, body),
    ...(permissionsIn(body).length === 0 && endErrors(call.body, principal.now)),
    ...lockoutErrors(principal, current.id, body.allowed_networks, requestInfo.certainAddress()),
  });
  const { name, permissions } = body;
  const expires_at = expiryAfter(current, body, principal);
  return { name, permissions, rules, ...settings, ...(expires_at && { expires_at }) };
}

/** Prevents lockout: a caller cannot remove its address from the allowed networks of the application it belongs to. */
function lockoutErrors(
  { applicationId }: Principal,
  id: string,
  networks: readonly string[] | undefined,
  address: string | undefined,
): Errors {
  if (id !== applicationId || !networks || networks.length === 0) return {};
  if (networkMatcher(networks)(address)) return {};
  return {
    allowed_networks: [
      `must contain your address ${address ?? '(unknown)'}, or you could not use your key any more: add it, or use the key of another application`,
    ],
  };
}
