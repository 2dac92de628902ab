import { z } from 'zod';
import { disclosuresOf } from '../../audit/trail.ts';
import { resourceOf } from '../../domain/audit.ts';
import { optional, Text, text, Uuid } from '../../domain/common-fields.ts';
import { Denial } from '../../domain/denial.ts';
import { dpopField, PresentedProof } from '../../domain/dpop.ts';
import { throwIfInvalid } from '../../domain/error.ts';
import { Explanation, explain, explainDenial, Step, trace } from '../../domain/explain.ts';
import { JsonText } from '../../domain/json-text.ts';
import { parseKey } from '../../domain/key.ts';
import { Permission } from '../../domain/permission.ts';
import { type Allowed, decideUnder, forPurpose, isOfTokens, type Resource } from '../../domain/policy.ts';
import {
  denyQuarantined,
  identityOf,
  isHandedOut,
  type Principal,
  questionOf,
} from '../../domain/principal.ts';
import { Purpose, purposeError } from '../../domain/purpose.ts';
import { Container, canonicalContainer, DestinationReference } from '../../domain/rule.ts';
import type { Reserve, Steps } from '../../domain/steps.ts';
import { type HandlerContext, type Report, readEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { withDestinations } from './destinations.ts';
import { type Caller, type FoundCredential, findPresented } from './presented-credential.ts';

const ResourceFields = z
  .strictObject({
    id: optional(text(1, 500)).describe('The resource id. Rules compare it as `id`.'),
    container: optional(Container).describe('The container. Rules compare it as `container`.'),
    destination: optional(DestinationReference).describe(
      'Only for `token:use`: the name or id of the destination. Rules compare its id with `destinations`.',
    ),
  })
  .meta({ id: 'Resource' });

const maxResources = 100;
const maxReplyBytes = 4_194_304;
/** Reserved for the parts of a reply other than its decisions. */
const envelopeBytes = 1024;

const DecisionRequest = z
  .strictObject({
    credential: Text.describe('The key to check, exactly as you received it. It does not have to be valid.'),
    proof: optional(PresentedProof).describe(
      'The DPoP proof that you received with the key. Required for the key of a bound session, ignored for other keys.',
    ),
    permission: Permission.describe('The permission to check.'),
    resource: optional(ResourceFields).describe(
      'The resource to check. Without it, only grants for all resources match.',
    ),
    resources: optional(z.array(ResourceFields).min(1).max(maxResources)).describe(
      'Several resources, instead of `resource`.',
    ),
    purpose: optional(Purpose).describe(
      'The purpose that the request states. Rules with `require_purpose` reveal data only with a purpose. The `SVC-PURPOSE` header of this request is not used.',
    ),
    explain: optional(z.boolean()).describe(
      'Whether to add `trace`. The response is then slower and larger.',
    ),
    record: optional(z.boolean()).describe(
      'Whether to record the decision in the audit log, because your service acts on it. Allowed resources are in the log before the response is sent. Requires the key of a private or management application that is not in quarantine.',
    ),
  })
  .refine(({ resource, resources }) => !resource || !resources, {
    path: ['resources'],
    error: 'cannot be combined with resource',
  })
  .meta({ id: 'DecisionRequest' });

const Outcome = Explanation.extend({
  trace: z.array(Step).optional().describe('All rules in order of evaluation. Only with `explain`.'),
}).meta({ id: 'Outcome' });

const PrincipalView = z
  .object({
    kind: z
      .enum(['application', 'session', 'delegation'])
      .describe('The kind of principal that the credential belongs to.'),
    id: Uuid.describe('The id of the application, session or delegation.'),
    application_id: Uuid.describe(
      'The id of the application, or of the application of the session or delegation.',
    ),
    subject: Text.optional().describe('Sessions and delegations only: who it is for. Absent if unknown.'),
  })
  .meta({ id: 'Principal' });

const principal = PrincipalView.optional().describe(
  'The principal that the credential belongs to. Absent if the credential is invalid.',
);

const Decision = z.union([
  Outcome.extend({ principal, dpop: dpopField }).meta({ id: 'Decision' }),
  z
    .object({
      principal,
      dpop: dpopField,
      decisions: z.array(Outcome).describe('One decision per resource, in the same order.'),
    })
    .meta({ id: 'Decisions' }),
]);

const invalidCredential = 'the credential is not valid';

export const decide = readEndpoint({
  name: 'decide',
  mayTakeLong: true,
  tag: 'Decisions',
  summary: 'Check access',
  description: `Checks whether a credential has a permission on a resource, and returns the reason. With \`resources\`, checks up to ${maxResources} resources. With \`explain\`, the response lists every rule, and says whether it matched and why. A response has at most 4 MiB. An invalid credential is denied without saying why it is invalid. The key of a bound session is denied without a valid \`proof\`, and the audit log says why. A session or delegation can check only its own key. Sessions, delegations and public applications do not see the rules of the application that authorized a session. Checking the key of a delegation spends no use of it. With \`record\`, the audit log has an entry for the credential, with \`reported_by\`.`,
  body: DecisionRequest,
  bodyExample: example.decisionRequest,
  replies: { 200: reply('The decision, with its reason.', Decision, example.decision) },
  failures: ['key_type_refused', 'quarantined'],
  handle: async ({ principal, body, requestInfo }, context) => {
    const { observer, usage, longWork, memory } = context;
    if (body.record) requireReporter(principal);
    requireListed(body.purpose, principal);
    const {
      principal: found,
      dpop,
      reason = invalidCredential,
    } = await find(body, { principal, requestInfo }, context);
    const subject = found && forPurpose(found, body.purpose);
    const question = subject && { ...questionOf(subject), hidesAuthorizer: isHandedOut(principal) };
    const outcomeOf = (resource: Resource) => {
      const outcome = question ? explain(question, body.permission, resource) : { allowed: false, reason };
      observer.decision(outcome.allowed);
      if (subject && outcome.allowed) usage.record(subject, body.permission, resource.container);
      if (!body.explain) return outcome;
      return { ...outcome, trace: question ? trace(question, body.permission, resource) : [] };
    };
    const who = { ...(subject && { principal: identityOf(subject) }), ...(dpop && { dpop }) };
    const given: readonly Resource[] = body.resources ?? [body.resource ?? {}];
    const asked = await withDestinations(context.store, principal.tenantId, given);
    const resources = subject ? await withMaxUses(subject, body.permission, asked, context.store) : asked;
    const report =
      body.record && subject
        ? {
            ...(await longWork.run(principal, reportOf(subject, body.permission, resources))),
            purpose: body.purpose,
          }
        : undefined;
    if (!body.resources) return { status: 200, body: { ...who, ...outcomeOf(resources[0] ?? {}) }, report };
    const outcomes = withinLimit(resources, outcomeOf, memory.reserverFor({ principal, requestInfo }));
    const decisions = JsonText.list(await longWork.run(principal, outcomes));
    return { status: 200, body: JsonText.extended(who, 'decisions', decisions), report };
  },
});

/**
 * Adds `max_uses` of stored tokens, because no read reveals them. Looks up only tokens that would be revealed. A token in
 * another container than the given one is left out: the decision is not about it, and must not tell that it exists.
 */
async function withMaxUses(
  { policy, ceiling, tenantId }: Principal,
  permission: string,
  resources: readonly Resource[],
  { tokens }: HandlerContext['store'],
): Promise<readonly Resource[]> {
  const isRevealed = (resource: Resource) => {
    const verdict = decideUnder(policy, ceiling, permission, resource);
    return verdict.allowed && verdict.transform === 'reveal';
  };
  if (!isOfTokens(permission)) return resources;
  const revealed = resources.filter((resource) => resource.id !== undefined && isRevealed(resource));
  const ids = [...new Set(revealed.flatMap(({ id = [] }) => id))];
  if (ids.length === 0) return resources;
  const stored = new Map((await tokens.locate(tenantId, ids)).map((token) => [token.id, token]));
  return resources.map((resource) => {
    const token = stored.get(resource.id ?? '');
    const { container = token?.container ?? '' } = resource;
    const isAbout = token && canonicalContainer(container) === canonicalContainer(token.container);
    return isAbout ? { ...resource, max_uses: token.max_uses } : resource;
  });
}

/** The decisions as the audit log records them: the allowed resources by transform, and each denial. */
function* reportOf(actor: Principal, permission: string, resources: readonly Resource[]): Steps<Report> {
  const question = questionOf(actor);
  const allowed: { token: Resource; verdict: Allowed }[] = [];
  const denials: Report['denials'][number][] = [];
  for (const resource of resources) {
    yield;
    const verdict = decideUnder(actor.policy, actor.ceiling, permission, resource);
    if (verdict.allowed) allowed.push({ token: resource, verdict });
    else
      denials.push({
        decision: explainDenial(question, permission, resource),
        resource: resourceOf([resource]),
      });
  }
  const disclosures = disclosuresOf(actor, allowed);
  return { actor, operation: permission.replaceAll(':', '.'), disclosures, denials };
}

/** Serializes the outcomes. Throws `validation_failed` as soon as they exceed the maximum size of a reply. */
function* withinLimit<T>(
  resources: readonly T[],
  outcomeOf: (resource: T) => object,
  reserve: Reserve,
): Steps<JsonText[]> {
  let bytes = envelopeBytes;
  const outcomes: JsonText[] = [];
  for (const resource of resources) {
    yield;
    const outcome = JsonText.of(outcomeOf(resource));
    const size = outcome.bytes + 1;
    bytes += size;
    if (bytes > maxReplyBytes)
      throwIfInvalid({ resources: ['have traces of more than 4 MiB: send fewer resources'] });
    reserve(size);
    outcomes.push(outcome);
  }
  return outcomes;
}

function requireListed(purpose: string | undefined, { purposes }: Principal): void {
  const error = purpose === undefined ? undefined : purposeError(purpose, purposes);
  if (error !== undefined) throwIfInvalid({ purpose: [error] });
}

/** Throws unless the caller may write audit entries about other principals. */
function requireReporter(caller: Principal): void {
  const required = 'the key of a private or management application';
  if (isHandedOut(caller))
    throw new Denial('key_type_refused', `\`record\` requires ${required}.`, {
      reason: `record requires ${required}`,
    });
  denyQuarantined(caller);
}

/** Finds the principal of the credential. Throws if the caller is a session or delegation and sends another key than its own. */
async function find(
  { credential, proof }: z.infer<typeof DecisionRequest>,
  caller: Caller,
  context: HandlerContext,
): Promise<FoundCredential> {
  const { principal } = caller;
  // A person in the console has no key to send.
  if (principal.kind === 'application' && principal.person && credential === '') return { principal };
  if (principal.kind === 'application') return findPresented(credential, proof, caller, context);
  const key = parseKey(credential);
  if (key && principal.digest.equals(key.digest)) return { principal };
  throw new Denial(
    'permission_missing',
    `A ${principal.kind} can use \`decision:create\` only to ask about its own key.`,
    { reason: `a ${principal.kind} can ask only about its own key` },
  );
}
