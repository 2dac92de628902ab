import { z } from 'zod';
import {
  AuthZenDecision,
  AuthZenDecisions,
  EvaluationRequest,
  EvaluationsRequest,
  permissionOf,
  type Semantic,
} from '../../../domain/authzen.ts';
import { type Errors, throwIfInvalid } from '../../../domain/error.ts';
import { type Explanation, explain } from '../../../domain/explain.ts';
import { JsonText } from '../../../domain/json-text.ts';
import { Permission } from '../../../domain/permission.ts';
import { decideUnder, forPurpose } from '../../../domain/policy.ts';
import { isHandedOut, type Principal } from '../../../domain/principal.ts';
import { purposeError } from '../../../domain/purpose.ts';
import type { Reserve, Steps } from '../../../domain/steps.ts';
import { check, validate } from '../../../domain/validate.ts';
import { type HandlerContext, readEndpoint, reply } from '../../pipeline/route.ts';
import { example } from '../../reference/examples.ts';
import { conventions, tag } from './conventions.ts';
import { type Entities, type FoundResource, findEntities } from './entities.ts';

export const evaluate = readEndpoint({
  name: 'evaluate',
  tag,
  summary: 'Evaluate access',
  description:
    'Decides whether a subject may perform an action on a resource, and why. A session can ask only about itself, a public key only about keys that it sends. About another subject whose key is not sent, the reason is one of two fixed sentences, without `rule` and `missing`, unless your key holds `access:review` or `application:read`. The context names the container of a stored token only if your key may read that token.',
  conventions,
  body: EvaluationRequest,
  bodyExample: example.authzen.evaluation,
  replies: { 200: reply('The decision.', AuthZenDecision, example.authzen.decision) },
  handle: async ({ principal, body, requestInfo }, context) => {
    throwIfInvalid(purposeErrors(body, principal));
    const entities = await findEntities({ principal, requestInfo }, [body.subject], [body.resource], context);
    return { status: 200, body: decisionFor(body, entities, principal, context) };
  },
});

export const evaluateAll = readEndpoint({
  name: 'evaluateAll',
  mayTakeLong: true,
  tag,
  summary: 'Evaluate access several times',
  description:
    'Decides up to 100 evaluations. Top-level fields are the defaults of every evaluation. A subject or resource without a type has the type of the default. An evaluation that lacks a required field is denied, with the error in its context. Without `evaluations`, the request and the response are those of a single evaluation.',
  conventions,
  body: EvaluationsRequest,
  bodyExample: example.authzen.evaluations,
  replies: {
    200: reply(
      'The decisions, in the order of the evaluations.',
      z.union([AuthZenDecisions, AuthZenDecision]),
      example.authzen.decisions,
    ),
  },
  handle: async ({ principal, body, requestInfo }, context) => {
    const { evaluations = [], options, ...defaults } = body;
    const requests =
      evaluations.length === 0
        ? [validate(EvaluationRequest, defaults, 'body')]
        : evaluations.map((given) => withDefaults(given, defaults, principal));
    if (evaluations.length === 0) throwIfInvalid(purposeErrors(requests[0] as EvaluationRequest, principal));
    const valid = requests.filter((request): request is EvaluationRequest => !('error' in request));
    const entities = await findEntities(
      { principal, requestInfo },
      valid.map(({ subject }) => subject),
      valid.map(({ resource }) => resource),
      context,
    );
    const decide = (request: EvaluationRequest | Invalid) =>
      'error' in request
        ? { decision: false, context: request }
        : decisionFor(request, entities, principal, context);
    if (evaluations.length === 0) return { status: 200, body: decide(requests[0] as EvaluationRequest) };
    const semantic = options?.evaluations_semantic ?? 'execute_all';
    const reserve = context.memory.reserverFor({ principal, requestInfo });
    const decisions = decideUntil(requests, decide, semantic, reserve);
    const texts = JsonText.list(await context.longWork.run(principal, decisions));
    return { status: 200, body: JsonText.extended({}, 'evaluations', texts) };
  },
});

type Defaults = Omit<EvaluationsRequest, 'evaluations' | 'options'>;

interface Invalid {
  readonly error: { readonly status: number; readonly message: string };
}

/**
 * A subject, action or resource of the evaluation replaces the whole default. Only a type that it lacks is taken from
 * the default, as the conformance suite expects, never an id or a property.
 */
function withDefaults(given: unknown, defaults: Defaults, caller: Principal): EvaluationRequest | Invalid {
  const present = isObject(given)
    ? Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null))
    : undefined;
  for (const name of ['subject', 'resource'] as const) {
    const [entity, fallback] = [present?.[name], defaults[name]];
    if (present && isObject(entity) && isObject(fallback))
      present[name] = { ...entity, type: entity.type ?? fallback.type };
  }
  const checked = check(EvaluationRequest, present ? { ...defaults, ...present } : given);
  if ('data' in checked) {
    const [unlisted] = Object.entries(purposeErrors(checked.data, caller));
    return unlisted ? invalid(unlisted[0], unlisted[1][0]) : checked.data;
  }
  const [fault] = checked.faults;
  return invalid(fault?.path.map(String).join('.') || 'the evaluation', fault?.message);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(field: string, message: string | undefined): Invalid {
  return { error: { status: 400, message: `${field} ${message}` } };
}

function purposeErrors({ context }: Pick<EvaluationRequest, 'context'>, { purposes }: Principal): Errors {
  const error = context?.purpose ? purposeError(context.purpose, purposes) : undefined;
  return error === undefined ? {} : { 'context.purpose': [error] };
}

/** Decides one request after the other. Stops after the first permit or the first deny, if `semantic` says so. */
function* decideUntil<T>(
  requests: readonly T[],
  decide: (request: T) => AuthZenDecision,
  semantic: Semantic,
  reserve: Reserve,
): Steps<JsonText[]> {
  const decisions: JsonText[] = [];
  for (const request of requests) {
    yield;
    const outcome = decide(request);
    const decision = JsonText.of(outcome);
    reserve(decision.bytes);
    decisions.push(decision);
    if (semantic === (outcome.decision ? 'permit_on_first_permit' : 'deny_on_first_deny')) break;
  }
  return decisions;
}

/** One sentence for unknown subjects and for missing grants, so that it does not tell them apart. */
const unexplained = 'the subject is unknown or has no access to this resource';
const unknownSubject = { allowed: false, reason: 'the subject is unknown, or its name is not unique' };

function decisionFor(
  { subject: given, action, resource: about, context: stated }: EvaluationRequest,
  entities: Entities,
  caller: Principal,
  { observer, usage }: HandlerContext,
): AuthZenDecision {
  const permission = permissionOf(action, about);
  const found = entities.subject(given);
  const subject = found && forPurpose(found, stated?.purpose ?? undefined);
  const resource = entities.resource(about);
  const unproven = entities.unproven(given);
  const denied = unproven ? { allowed: false, reason: unproven.reason } : unknownSubject;
  const outcome = subject ? explain(subject, permission, resource) : denied;
  observer.decision(outcome.allowed);
  if (subject?.principal && outcome.allowed) usage.record(subject.principal, permission, resource.container);
  const dpop = subject?.dpop ?? unproven?.dpop;
  const details = contextOf(outcome, permission, resource, caller, {
    mayExplain: entities.mayExplain(given),
    isFound: subject !== undefined,
  });
  return { decision: outcome.allowed, context: { ...details, ...(dpop && { dpop }) } };
}

function contextOf(
  { allowed, ...outcome }: Explanation,
  permission: string,
  resource: FoundResource,
  caller: Principal,
  { mayExplain, isFound }: { mayExplain: boolean; isFound: boolean },
): AuthZenDecision['context'] {
  if (!Permission.safeParse(permission).success)
    return { reason: `${permission} is not the name of a permission` };
  const { transform, rule, missing } = outcome;
  const granted = 'the subject has access to this resource';
  if (!mayExplain) return transform ? { reason: granted, transform } : { reason: unexplained };
  // Without a subject, the reply does not depend on the resource.
  const mayKnowContainer =
    !isFound ||
    !resource.isStored ||
    decideUnder(caller.policy, caller.ceiling, 'token:read', resource).allowed;
  if (mayKnowContainer) return outcome;
  return {
    reason: allowed ? granted : 'no grant covers this resource',
    ...(transform && { transform }),
    ...(!isHandedOut(caller) && rule && { rule }),
    ...(missing && { missing: { permission } }),
  };
}
