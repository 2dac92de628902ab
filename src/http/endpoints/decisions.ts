import { z } from 'zod';
import { optional, text } from '../../domain/common-fields.ts';
import { fail, throwIfInvalid } from '../../domain/error.ts';
import { explain, trace } from '../../domain/explain.ts';
import { JsonText } from '../../domain/json-text.ts';
import { parseKey } from '../../domain/key.ts';
import { Permission } from '../../domain/permission.ts';
import { isInBrowser, type Principal, questionOf } from '../../domain/principal.ts';
import { Container } from '../../domain/rule.ts';
import { Transform } from '../../domain/transform.ts';
import type { Credentials } from '../../store/store.ts';
import { readEndpoint } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';

const Resource = z
  .strictObject({
    id: optional(text(1, 500)).describe('What rules compare as `id`.'),
    container: optional(Container).describe('What rules compare as `container`.'),
  })
  .meta({ id: 'Resource' });

/** What is asked about when nothing is named: only grants for everything cover it. */
const anything: z.output<typeof Resource> = { id: undefined, container: undefined };

const mostResources = 100;
const largestReply = 4_194_304;
/** Room for all of a reply but its decisions. */
const envelope = 1024;

const DecisionRequest = z
  .strictObject({
    credential: z.string().describe('The key that was shown to you, whatever it is.'),
    permission: Permission.describe('What it is to be used for.'),
    resource: optional(Resource).describe(
      'What it is to be used on; without it, only grants for everything count.',
    ),
    resources: optional(z.array(Resource).min(1).max(mostResources)).describe(
      'Several at once, instead of `resource`.',
    ),
    explain: optional(z.boolean()).describe('Whether to add `trace`. It takes more time and a larger reply.'),
  })
  .refine(({ resource, resources }) => !resource || !resources, {
    path: ['resources'],
    error: 'cannot be combined with resource',
  })
  .meta({ id: 'DecisionRequest' });

const place = {
  of: z.enum(['application', 'session', 'authorizer']).describe('Whose rule it is.'),
  rule: z
    .union([z.int(), z.literal('permissions')])
    .describe('Which one, counted from 1, or the plain permissions.'),
};

const Step = z
  .object({
    ...place,
    priority: z.int().optional().describe('Of the rule. The plain permissions have none: they come last.'),
    transform: Transform.describe('How much of the data it shows.'),
    grants: z.boolean().describe('Whether it grants the permission.'),
    matches: z.boolean().describe('Whether it is about the resource.'),
    why: z.string().describe('Why it is about the resource, or is not.'),
  })
  .meta({ id: 'DecisionStep' });

const DecidingRule = z
  .object({ ...place, description: z.string().optional().describe('What the rule says it is for.') })
  .meta({ id: 'DecidingRule' });

const MissingGrant = z
  .object({
    permission: z.string().describe('The permission.'),
    container: z
      .string()
      .optional()
      .describe('The container to grant it on. Absent for a grant that no container narrows.'),
  })
  .meta({ id: 'MissingGrant' });

const Outcome = z
  .object({
    allowed: z.boolean().describe('Whether the credential may do it.'),
    transform: Transform.optional().describe('How much of the data to show. Absent if denied.'),
    reason: z.string().describe('What decided, in words.'),
    rule: DecidingRule.optional().describe('The rule that allowed it.'),
    missing: MissingGrant.optional().describe(
      'The smallest grant that would allow it. Absent if allowed, if the credential is not valid, and where it is the grant of an authorizer that the caller may not see.',
    ),
    trace: z
      .array(Step)
      .optional()
      .describe('Every rule in the order in which they decide. Only with `explain`.'),
  })
  .meta({ id: 'Outcome' });

const PrincipalView = z
  .object({
    kind: z.enum(['application', 'session']).describe('What the credential belongs to.'),
    id: z.uuid().describe('The id of that Application or Session.'),
    application_id: z.uuid().describe('The Application itself, or the one that the Session belongs to.'),
  })
  .meta({ id: 'Principal' });

const principal = PrincipalView.optional().describe('Whose credential it is; absent when it is not valid.');

const Decision = z.union([
  Outcome.extend({ principal }).meta({ id: 'Decision' }),
  z
    .object({ principal, decisions: z.array(Outcome).describe('One for each resource, in their order.') })
    .meta({ id: 'Decisions' }),
]);

const invalid = { allowed: false, reason: 'the credential is not valid' };

export const decide = readEndpoint({
  name: 'decide',
  tag: 'Decisions',
  summary: 'Ask whether a credential may do something, and why',
  description: `For services that guard data of their own. With \`resources\`, up to ${mostResources} answers in their order. With \`explain\`, every rule says whether and why it matched; a reply has at most 4 MiB. An invalid credential is denied without a reason. A Session may ask only about its own key. Sessions and public Applications do not see the rules of a Session's authorizer.`,
  body: DecisionRequest,
  bodyExample: example.decisionRequest,
  replies: {
    200: { description: 'The decision, with its reason.', schema: Decision, example: example.decision },
  },
  handle: async ({ principal, body }, { store, observer, usage }) => {
    const subject = await subjectOf(body.credential, principal, store.credentials);
    const question = subject && { ...questionOf(subject), hidesAuthorizer: isInBrowser(principal) };
    const outcomeOf = (resource: z.output<typeof Resource>) => {
      const outcome = question ? explain(question, body.permission, resource) : invalid;
      observer.decision(outcome.allowed);
      if (subject && outcome.allowed) usage.note(subject, body.permission, resource.container);
      if (!body.explain) return outcome;
      return { ...outcome, trace: question ? trace(question, body.permission, resource) : [] };
    };
    const who = subject && { principal: viewOf(subject) };
    if (!body.resources) return { status: 200, body: { ...who, ...outcomeOf(body.resource ?? anything) } };
    const decisions = JsonText.list(withinLimit(body.resources, outcomeOf));
    return { status: 200, body: JsonText.extended({ ...who }, 'decisions', decisions) };
  },
});

/** Stops as soon as the outcomes together are larger than a reply may be. */
function withinLimit<T>(resources: readonly T[], outcomeOf: (resource: T) => object): JsonText[] {
  let bytes = envelope;
  return resources.map((resource) => {
    const outcome = JsonText.of(outcomeOf(resource));
    bytes += Buffer.byteLength(outcome.text) + 1;
    if (bytes > largestReply)
      throwIfInvalid({ resources: ['have traces of more than 4 MiB: ask about fewer at once'] });
    return outcome;
  });
}

/** Whose credential it is, if it is valid. A credential of another tenant is not. */
async function subjectOf(
  credential: string,
  asker: Principal,
  credentials: Credentials,
): Promise<Principal | undefined> {
  const key = parseKey(credential);
  if (asker.kind === 'session') {
    if (key?.kind === 'ses' && asker.digest.equals(key.digest)) return asker;
    throw fail('permission_missing', {
      detail: 'A session can use `decision:create` only to ask about its own key.',
    });
  }
  const found = key && (await credentials.find(key.kind, key.digest));
  return found?.tenantId === asker.tenantId ? found : undefined;
}

function viewOf(principal: Principal): z.infer<typeof PrincipalView> {
  const { kind, applicationId } = principal;
  return {
    kind,
    id: kind === 'session' ? principal.sessionId : applicationId,
    application_id: applicationId,
  };
}
