import { z } from 'zod';
import { optional, text } from '../../domain/common-fields.ts';
import { fail, throwIfInvalid } from '../../domain/error.ts';
import { Explanation, explain, Step, trace } from '../../domain/explain.ts';
import { JsonText } from '../../domain/json-text.ts';
import { parseKey } from '../../domain/key.ts';
import { Permission } from '../../domain/permission.ts';
import { identityOf, isInBrowser, type Principal, questionOf } from '../../domain/principal.ts';
import { Container } from '../../domain/rule.ts';
import type { Credentials } from '../../store/store.ts';
import { readEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';

const Resource = z
  .strictObject({
    id: optional(text(1, 500)).describe('The resource id. Rules compare it as `id`.'),
    container: optional(Container).describe('The container. Rules compare it as `container`.'),
  })
  .meta({ id: 'Resource' });

const maxResources = 100;
const maxReplyBytes = 4_194_304;
/** Reserved for the parts of a reply other than its decisions. */
const envelopeBytes = 1024;

const DecisionRequest = z
  .strictObject({
    credential: z
      .string()
      .describe('The key to check, exactly as you received it. It does not have to be valid.'),
    permission: Permission.describe('The permission to check.'),
    resource: optional(Resource).describe(
      'The resource to check. Without it, only grants for all resources match.',
    ),
    resources: optional(z.array(Resource).min(1).max(maxResources)).describe(
      'Several resources, instead of `resource`.',
    ),
    explain: optional(z.boolean()).describe(
      'Whether to add `trace`. The response is then slower and larger.',
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
      .enum(['application', 'session'])
      .describe('The kind of principal that the credential belongs to.'),
    id: z.uuid().describe('The id of the application or session.'),
    application_id: z.uuid().describe('The id of the application, or of the application of the session.'),
  })
  .meta({ id: 'Principal' });

const principal = PrincipalView.optional().describe(
  'The principal that the credential belongs to. Absent if the credential is invalid.',
);

const Decision = z.union([
  Outcome.extend({ principal }).meta({ id: 'Decision' }),
  z
    .object({
      principal,
      decisions: z.array(Outcome).describe('One decision per resource, in the same order.'),
    })
    .meta({ id: 'Decisions' }),
]);

const invalidCredential = { allowed: false, reason: 'the credential is not valid' };

export const decide = readEndpoint({
  name: 'decide',
  tag: 'Decisions',
  summary: 'Check access',
  description: `Checks whether a credential has a permission on a resource, and returns the reason. With \`resources\`, checks up to ${maxResources} resources. With \`explain\`, the response lists every rule, and says whether it matched and why. A response has at most 4 MiB. An invalid credential is denied without saying why it is invalid. A session can check only its own key. Sessions and public applications do not see the rules of the application that authorized a session.`,
  body: DecisionRequest,
  bodyExample: example.decisionRequest,
  replies: { 200: reply('The decision, with its reason.', Decision, example.decision) },
  handle: async ({ principal, body }, { store, observer, usage }) => {
    const subject = await subjectOf(body.credential, principal, store.credentials);
    const question = subject && { ...questionOf(subject), hidesAuthorizer: isInBrowser(principal) };
    const outcomeOf = (resource: { id?: string | undefined; container?: string | undefined }) => {
      const outcome = question ? explain(question, body.permission, resource) : invalidCredential;
      observer.decision(outcome.allowed);
      if (subject && outcome.allowed) usage.record(subject, body.permission, resource.container);
      if (!body.explain) return outcome;
      return { ...outcome, trace: question ? trace(question, body.permission, resource) : [] };
    };
    const who = subject && { principal: identityOf(subject) };
    if (!body.resources) return { status: 200, body: { ...who, ...outcomeOf(body.resource ?? {}) } };
    const decisions = JsonText.list(withinLimit(body.resources, outcomeOf));
    return { status: 200, body: JsonText.extended({ ...who }, 'decisions', decisions) };
  },
});

/** Rejects the request as soon as the outcomes exceed the maximum size of a reply. */
function withinLimit<T>(resources: readonly T[], outcomeOf: (resource: T) => object): JsonText[] {
  let bytes = envelopeBytes;
  return resources.map((resource) => {
    const outcome = JsonText.of(outcomeOf(resource));
    bytes += Buffer.byteLength(outcome.text) + 1;
    if (bytes > maxReplyBytes)
      throwIfInvalid({ resources: ['have traces of more than 4 MiB: send fewer resources'] });
    return outcome;
  });
}

/** The principal of the credential, or undefined if it is invalid or belongs to another tenant. */
async function subjectOf(
  credential: string,
  caller: Principal,
  credentials: Credentials,
): Promise<Principal | undefined> {
  const key = parseKey(credential);
  if (caller.kind === 'session') {
    if (key?.kind === 'ses' && caller.digest.equals(key.digest)) return caller;
    throw fail('permission_missing', {
      detail: 'A session can use `decision:create` only to ask about its own key.',
    });
  }
  const found = key && (await credentials.find(key.kind, key.digest));
  return found?.tenantId === caller.tenantId ? found : undefined;
}
