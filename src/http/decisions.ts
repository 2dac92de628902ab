import { z } from 'zod';
import { optional, text } from '../domain/field.ts';
import { recognise } from '../domain/key.ts';
import { Permission } from '../domain/permission.ts';
import { explained, type Principal } from '../domain/principal.ts';
import { Container } from '../domain/rule.ts';
import { Transform } from '../domain/transform.ts';
import type { Credentials } from '../store/store.ts';
import { example } from './examples.ts';
import { readRoute } from './route.ts';

const Resource = z
  .strictObject({
    id: optional(text(1, 500)).describe('What rules compare as `id`.'),
    container: optional(Container).describe('What rules compare as `container`.'),
  })
  .meta({ id: 'Resource' });

/** What is asked about when nothing is named: only grants for everything cover it. */
const anything: z.output<typeof Resource> = { id: undefined, container: undefined };

const mostResources = 100;

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

const Outcome = z
  .object({
    allowed: z.boolean().describe('Whether the credential may do it.'),
    transform: Transform.optional().describe('How much of the data to show; absent when it is not allowed.'),
    reason: z.string().describe('What decided; for a denial, the smallest grant that is missing.'),
    rule: DecidingRule.optional().describe('The rule that decided, when one allowed it.'),
    trace: z.array(Step).describe('What every rule made of it, in the order in which they decide.'),
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

const invalid = { allowed: false, reason: 'the credential is not valid', trace: [] };

export const decide = readRoute({
  method: 'POST',
  path: '/decisions',
  name: 'decide',
  tag: 'Decisions',
  summary: 'Ask whether a credential may do something, and why',
  description: `For services that guard data of their own. With \`resources\`, up to ${mostResources} answers in their order. A credential that is not valid is denied without saying why.`,
  permission: 'decision:create',
  body: DecisionRequest,
  bodyExample: example.decisionRequest,
  replies: {
    200: { description: 'The decision, with its reasons.', schema: Decision, example: example.decision },
  },
  handle: async ({ principal, body }, { store, observer, uses }) => {
    const subject = await find(body.credential, principal.tenantId, store.credentials);
    const outcomeOf = (resource: z.output<typeof Resource>) => {
      const outcome = subject ? explained(subject, body.permission, resource) : invalid;
      observer.decision(outcome.allowed);
      if (subject && outcome.allowed) uses.note(subject, body.permission, resource.container);
      return outcome;
    };
    const who = subject && { principal: viewOf(subject) };
    if (body.resources) return { status: 200, body: { ...who, decisions: body.resources.map(outcomeOf) } };
    return { status: 200, body: { ...who, ...outcomeOf(body.resource ?? anything) } };
  },
});

/** Another tenant's credential is as good as none. */
async function find(
  credential: string,
  tenant: string,
  credentials: Credentials,
): Promise<Principal | undefined> {
  const key = recognise(credential);
  const found = key && (await credentials.find(key.kind, key.digest));
  return found?.tenantId === tenant ? found : undefined;
}

function viewOf(principal: Principal): z.infer<typeof PrincipalView> {
  const { kind, applicationId } = principal;
  return {
    kind,
    id: kind === 'session' ? principal.sessionId : applicationId,
    application_id: applicationId,
  };
}
