/**
 * Requests and responses of the OpenID AuthZEN Authorization API 1.0, and their mapping to permissions. Unknown fields
 * are ignored, as the standard requires.
 */
import { z } from 'zod';
import { Count, containsNoSecret, Flag, optional, Text } from './common-fields.ts';
import { AuthZenProof, dpopField } from './dpop.ts';
import { DecidingRule, MissingGrant } from './explain.ts';
import { Purpose } from './purpose.ts';
import { Container, DestinationReference, Transform } from './rule.ts';

const maxLength = 500;
const maxEvaluations = 100;

const text = z
  .string()
  .max(maxLength)
  .refine((value) => value.isWellFormed(), 'must be well-formed Unicode');

const Type = text.describe('Type of the entity.');

/** In lower case, like the permissions and token types that it is compared with. */
const ResourceType = Type.toLowerCase();

/** Gateways log ids, so an id must not contain a key. */
const EntityId = text.refine(containsNoSecret, 'must not contain a key: send it as properties.credential');

const SubjectType = Type.describe(
  '`application` or `session`, with its id. With any other type, the id is the name of an application.',
);

export const AuthZenSubject = z
  .object({
    type: SubjectType,
    id: EntityId.describe('The id of the application or session, or the name of the application.'),
    properties: optional(
      z.object({
        credential: optional(z.string()).describe(
          'The key of the subject. It replaces the id, which is then ignored.',
        ),
        proof: optional(AuthZenProof).describe(
          'The DPoP proof that you received with the key. Required for the key of a bound session.',
        ),
      }),
    ).describe('Other properties are ignored.'),
  })
  .meta({ id: 'AuthZenSubject' });
export type AuthZenSubject = z.infer<typeof AuthZenSubject>;

const AuthZenAction = z
  .object({
    name: text.describe(
      'With the type of the resource, it forms the permission, in lower case: `read` on a `token` is `token:read`, `GET` on a `route` is `route:get`. A name with a colon is the permission itself.',
    ),
  })
  .meta({ id: 'AuthZenAction' });
export type AuthZenAction = z.infer<typeof AuthZenAction>;

const AskedAction = AuthZenAction.extend({
  properties: optional(
    z.object({
      soft: optional(Flag).describe(
        'If true, the permission starts with `soft-`: `delete` on a `record` is `record:soft-delete`.',
      ),
    }),
  ).describe('Other properties are ignored.'),
}).meta({ id: 'AuthZenAskedAction' });
type AskedAction = z.infer<typeof AskedAction>;

const resourceProperties = {
  properties: optional(
    z.object({
      destination: optional(DestinationReference)
        .optional()
        .describe('Only for `token:use`: the name or id of the destination.'),
      container: optional(Container).describe(
        'The container. Ignored for a stored token, whose own container applies. Without it, an id that is a path is the container, except for the type `token`: `/todos/{todoId}` is `/todos/todoId/`.',
      ),
    }),
  ).describe('Other properties are ignored.'),
};

export const AuthZenResource = z
  .object({
    type: ResourceType.describe(
      'The first word of the permission. For stored tokens, `token` or the type of the token. Case is ignored.',
    ),
    id: EntityId.describe('The id of the resource. For a stored token, its container is looked up.'),
    ...resourceProperties,
  })
  .meta({ id: 'AuthZenResource' });
export type AuthZenResource = z.infer<typeof AuthZenResource>;

interface Context {
  readonly purpose?: string | null;
}

/** Its other entries are not checked: a batch has one context, which would be checked for each of 100 evaluations. */
const RequestContext = optional(
  z
    .unknown()
    .refine((value) => typeof value === 'object' && !Array.isArray(value), 'must be an object')
    .refine((value) => Purpose.nullish().safeParse((value as Context | null)?.purpose).success, {
      path: ['purpose'],
      error: 'must be a line of 1 to 200 characters',
    })
    .transform((value) => value as Context)
    .meta({ type: 'object', additionalProperties: true }),
).describe(
  '`purpose` is the purpose that the request states: rules with `require_purpose` reveal data only with a purpose. Other entries are ignored.',
);

export const EvaluationRequest = z
  .object({
    subject: AuthZenSubject,
    action: AskedAction,
    resource: AuthZenResource,
    context: RequestContext,
  })
  .meta({ id: 'AuthZenEvaluationRequest' });
export type EvaluationRequest = z.infer<typeof EvaluationRequest>;

const Unchecked = z.unknown().meta({ type: 'object', additionalProperties: true });

/** Each evaluation is validated separately, so that an invalid one does not affect the others. */
const UncheckedEvaluation = Unchecked.describe(
  'The fields of a single evaluation. Those with a default may be absent.',
);

export const semantics = ['execute_all', 'deny_on_first_deny', 'permit_on_first_permit'] as const;
export type Semantic = (typeof semantics)[number];

/** An invalid default is an error of the evaluations that use it. */
function defaultOf<S extends z.ZodType>(schema: S, description: string) {
  return optional(z.union([schema, Unchecked])).describe(description);
}

export const EvaluationsRequest = z
  .object({
    subject: defaultOf(AuthZenSubject, 'Default for evaluations without a subject.'),
    action: defaultOf(AskedAction, 'Default for evaluations without an action.'),
    resource: defaultOf(AuthZenResource, 'Default for evaluations without a resource.'),
    context: optional(Unchecked).describe('Default for evaluations without a context.'),
    evaluations: optional(z.array(UncheckedEvaluation).max(maxEvaluations)).describe(
      'The evaluations. An invalid one is denied, with the error in its context. Without any, the request is a single evaluation.',
    ),
    options: optional(
      z.object({
        evaluations_semantic: optional(z.enum(semantics)).describe(
          '`execute_all`, the default, returns every decision. The other two stop after the first denied or the first permitted evaluation.',
        ),
      }),
    ).describe('Other options are ignored.'),
  })
  .meta({ id: 'AuthZenEvaluationsRequest' });
export type EvaluationsRequest = z.infer<typeof EvaluationsRequest>;

export const AuthZenDecision = z
  .object({
    decision: Flag.describe('Whether access is allowed.'),
    context: z
      .object({
        reason: Text.exactOptional().describe('The reason, as a sentence.'),
        transform: Transform.exactOptional().describe('How to show the data. Absent if denied.'),
        rule: DecidingRule.exactOptional().describe('The rule that allowed it.'),
        missing: MissingGrant.exactOptional().describe('The smallest grant that would allow it.'),
        dpop: dpopField,
        error: z
          .object({
            status: z.int().describe('The HTTP status code that a single evaluation would have.'),
            message: Text.describe('The error.'),
          })
          .exactOptional()
          .describe('Why an evaluation of a batch is invalid.'),
      })
      .describe('Details of the decision.'),
  })
  .meta({ id: 'AuthZenDecision' });
export type AuthZenDecision = z.infer<typeof AuthZenDecision>;

export const AuthZenDecisions = z
  .object({
    evaluations: z.array(AuthZenDecision).describe('The decisions, in the order of the evaluations.'),
  })
  .meta({ id: 'AuthZenDecisions' });

const maxResults = 1000;
const defaultResults = 100;

const page = {
  page: optional(
    z.object({
      token: optional(z.string()).describe('`next_token` of the previous response to the same search.'),
      limit: optional(z.int().min(0)).describe(
        `Maximum number of results, at most ${maxResults}. ${defaultResults} by default.`,
      ),
    }),
  ).describe('Which part of the results to return.'),
};

export function limitOf({ page }: { page?: { limit?: number | undefined } | undefined }): number {
  return Math.min(page?.limit ?? defaultResults, maxResults);
}

export const SubjectSearch = z
  .object({
    subject: z.object({ type: SubjectType }).describe('The subjects to find. An id is ignored.'),
    action: AskedAction,
    resource: AuthZenResource,
    context: RequestContext,
    ...page,
  })
  .meta({ id: 'AuthZenSubjectSearch' });

export const ResourceSearch = z
  .object({
    subject: AuthZenSubject,
    action: AskedAction,
    resource: z
      .object({ type: ResourceType, ...resourceProperties })
      .describe('The resources to find. An id is ignored.'),
    context: RequestContext,
    ...page,
  })
  .meta({ id: 'AuthZenResourceSearch' });

export const ActionSearch = z
  .object({ subject: AuthZenSubject, resource: AuthZenResource, context: RequestContext, ...page })
  .meta({ id: 'AuthZenActionSearch' });

const Page = z
  .object({
    next_token: Text.describe('To send as `page.token` for the next part. Empty after the last one.'),
    count: Count.describe('The number of results in this response.'),
  })
  .meta({ id: 'AuthZenPage' });

const Entity = z
  .object({ type: Text.describe('Its type.'), id: Text.describe('Its id, or its name.') })
  .meta({ id: 'AuthZenEntity' });

/** A search examines a limited number of entries, so a page can be short or empty and still have a `next_token`. */
export const EntityResults = z
  .object({ page: Page, results: z.array(Entity).describe('The results.') })
  .meta({ id: 'AuthZenEntities' });

export const ActionResults = z
  .object({ page: Page, results: z.array(AuthZenAction).describe('The results.') })
  .meta({ id: 'AuthZenActions' });

export function permissionOf(
  { name, properties }: Pick<AskedAction, 'name'> & Partial<AskedAction>,
  { type }: { type: string },
): string {
  return name.includes(':') ? name : `${type}:${properties?.soft ? 'soft-' : ''}${name}`.toLowerCase();
}

/**
 * The container of a resource that is not a stored token. API gateways send the path of a route as its id, with
 * parameters such as `{todoId}`, which count as segments with their name. Undefined if the path is not a valid
 * container: then only grants for all resources match.
 */
export function containerOf({ type, id, properties }: AuthZenResource): string | undefined {
  if (properties?.container !== undefined) return properties.container;
  if (type === 'token' || !id.startsWith('/')) return undefined;
  const path = id.replace(/\/\{([^{}/]+)\}(?=\/|$)/g, '/$1');
  return Container.safeParse(path.endsWith('/') ? path : `${path}/`).data;
}

/** The inverse of `permissionOf`. Undefined if the permission is for another resource type. */
export function actionOf(permission: string, type: string): AuthZenAction | undefined {
  if (!permission.startsWith(`${type}:`)) return undefined;
  const rest = permission.slice(type.length + 1);
  return { name: rest.includes(':') ? permission : rest };
}

/**
 * Types with which a subject search returns application names. An evaluation accepts an application name with any type
 * except `application`, `session` and `delegation`.
 */
const namedTypes = new Set(['user', 'identity', 'client', 'service', 'workload', 'agent']);

const searchedKinds = ['application', 'session', 'delegation'] as const;
type SearchedKind = (typeof searchedKinds)[number];

/** Which subjects a search for this type examines. Undefined if the type is unknown. */
export function searchedKind(type: string): { kind: SearchedKind; byName: boolean } | undefined {
  const kind = searchedKinds.find((known) => known === type);
  if (kind) return { kind, byName: false };
  return namedTypes.has(type) ? { kind: 'application', byName: true } : undefined;
}
