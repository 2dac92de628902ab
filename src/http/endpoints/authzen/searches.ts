import {
  ActionResults,
  ActionSearch,
  type AuthZenAction,
  type AuthZenResource,
  type AuthZenSubject,
  actionOf,
  EntityResults,
  limitOf,
  permissionOf,
  ResourceSearch,
  SubjectSearch,
  searchedKind,
} from '../../../domain/authzen.ts';
import { Id } from '../../../domain/common-fields.ts';
import { throwIfInvalid } from '../../../domain/error.ts';
import { Permission } from '../../../domain/permission.ts';
import { decideUnder, type Resource, transformUnder } from '../../../domain/policy.ts';
import { canonicalContainer } from '../../../domain/rule.ts';
import type { Steps } from '../../../domain/steps.ts';
import { TokenType } from '../../../domain/token.ts';
import { visible, within } from '../../../domain/visible-scopes.ts';
import type { DecidedBy, Subject } from '../../../store/store.ts';
import { readEndpoint, reply } from '../../pipeline/route.ts';
import { example } from '../../reference/examples.ts';
import { beforeAll, ScanBudget, type ScanPosition, scanSubjects, tableOf } from '../access/subject-scan.ts';
import { withDestinations } from '../destinations.ts';
import { conventions, tag } from './conventions.ts';
import { type FoundSubject, findEntities } from './entities.ts';

const bounded =
  'A search examines a limited number of entries: a response can have few or no results and still a `next_token`.';

export const searchSubjects = readEndpoint({
  name: 'searchSubjects',
  mayTakeLong: true,
  tag,
  summary: 'Search subjects',
  description: `Returns the subjects of a type that may perform an action on a resource: the ids of applications, active sessions or delegations, or, for the types \`user\`, \`identity\`, \`client\`, \`service\`, \`workload\` and \`agent\`, the names of applications. A name that several applications have is left out. ${bounded}`,
  conventions,
  body: SubjectSearch,
  bodyExample: example.authzen.subjectSearch,
  replies: { 200: reply('The subjects.', EntityResults, example.authzen.subjects) },
  handle: async ({ principal, body, requestInfo }, context) => {
    const { store } = context;
    const { type } = body.subject;
    const permission = permissionOf(body.action, body.resource);
    const resource = (await findEntities({ principal, requestInfo }, [], [body.resource], context)).resource(
      body.resource,
    );
    const search = ['subject', type, permission, ...namesOf(body.resource)];
    const before = positionIn(body, search, Id.safeParse) ?? beforeAll;
    const limit = limitOf(body);
    const searched = Permission.safeParse(permission).success ? searchedKind(type) : undefined;
    if (!searched || limit === 0) return resultsOf(search, [], searched && before);
    const { kind, byName } = searched;
    const table = tableOf(kind);
    const options = { kinds: [table], permission, from: { kind: table, before }, uniqueNames: byName };
    const scan = scanSubjects(store, principal.tenantId, options, new ScanBudget());
    const found: Pick<Subject, 'id' | 'name'>[] = [];
    let end: ScanPosition | undefined;
    for (let step = await scan.next(); ; step = await scan.next()) {
      if (step.done) {
        end = step.value;
        break;
      }
      const allowed = await context.longWork.run(
        principal,
        withAccess(
          step.value.filter((subject) => subject.kind === kind),
          permission,
          resource,
        ),
      );
      found.push(...allowed.map(({ id, name }) => ({ id, name })));
      // One more than fits: the last page must not have a token.
      if (found.length > limit) {
        end = { kind: table, before: found[limit - 1]?.id as string };
        break;
      }
    }
    const results = found.slice(0, limit).map(({ id, name }) => ({ type, id: byName ? name : id }));
    return resultsOf(search, results, end?.before);
  },
});

export const searchResources = readEndpoint({
  name: 'searchResources',
  mayTakeLong: true,
  tag,
  summary: 'Search resources',
  description: `Returns the stored tokens of a type on which a subject may perform an action. The type \`token\` stands for tokens of every type. ${bounded}`,
  conventions,
  body: ResourceSearch,
  bodyExample: example.authzen.resourceSearch,
  replies: { 200: reply('The resources.', EntityResults, example.authzen.resources) },
  handle: async ({ principal, body, requestInfo }, context) => {
    const { store } = context;
    const { type, properties } = body.resource;
    const permission = permissionOf(body.action, body.resource);
    const container = canonicalContainer(properties?.container ?? '/');
    const search = [
      'resource',
      ...namesOf(body.subject),
      permission,
      type,
      container,
      properties?.destination,
    ];
    const before = positionIn(body, search, Id.safeParse);
    const subject = (await findEntities({ principal, requestInfo }, [body.subject], [], context)).subject(
      body.subject,
    );
    const [{ destination } = {}] = await withDestinations(store, principal.tenantId, [
      { destination: properties?.destination },
    ]);
    const size = limitOf(body);
    if (!subject || !TokenType.safeParse(type).success || size === 0)
      return resultsOf(search, [], subject && size === 0 ? (before ?? beforeAll) : undefined);
    const decideUse = (token: DecidedBy) => {
      if (!canonicalContainer(token.container).startsWith(container)) return undefined;
      // Only the id is returned, so no data is decrypted.
      const used = { ...token, destination };
      const verdict = decideUnder(subject.policy, subject.ceiling, permission, used);
      return verdict.allowed ? { ...verdict, transform: 'redact' as const } : undefined;
    };
    const { rows, next } = await store.tokens.list(principal.tenantId, {
      visible: within(visible(subject, permission), container),
      decide: decideUse,
      filter: { type: type === 'token' ? undefined : type },
      size,
      start: before ?? beforeAll,
    });
    return resultsOf(
      search,
      rows.map(({ token }) => ({ type, id: token.id })),
      next,
    );
  },
});

export const searchActions = readEndpoint({
  name: 'searchActions',
  mayTakeLong: true,
  tag,
  summary: 'Search actions',
  description:
    'Returns the actions that a subject may perform on a resource: the permissions whose first word is the type of the resource, without that word.',
  conventions,
  body: ActionSearch,
  bodyExample: example.authzen.actionSearch,
  replies: { 200: reply('The actions.', ActionResults, example.authzen.actions) },
  handle: async ({ principal, body, requestInfo }, context) => {
    const { type } = body.resource;
    const entities = await findEntities({ principal, requestInfo }, [body.subject], [body.resource], context);
    const resource = entities.resource(body.resource);
    const search = ['action', ...namesOf(body.subject), ...namesOf(body.resource)];
    const after = positionIn(body, search, (name) => ({ data: name })) ?? '';
    const actions = actionsOf(entities.subject(body.subject), type, resource).filter(
      ({ name }) => name > after,
    );
    const results = actions.slice(0, limitOf(body));
    const isLast = results.length === actions.length;
    return resultsOf(search, results, isLast ? undefined : (results.at(-1)?.name ?? after));
  },
});

function* withAccess(subjects: readonly Subject[], permission: string, resource: Resource): Steps<Subject[]> {
  const found: Subject[] = [];
  for (const subject of subjects) {
    yield;
    if (transformUnder(subject.grants, subject.ceiling, permission, resource) !== undefined)
      found.push(subject);
  }
  return found;
}

/** The actions that the subject may perform, sorted by name. */
function actionsOf(subject: FoundSubject | undefined, type: string, resource: Resource): AuthZenAction[] {
  if (!subject) return [];
  const { policy, ceiling } = subject;
  return [...policy.granted]
    .filter((permission) => decideUnder(policy, ceiling, permission, resource).allowed)
    .map((permission) => actionOf(permission, type))
    .filter((action) => action !== undefined)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function namesOf({ type, id, properties }: AuthZenSubject | AuthZenResource): Search {
  return [type, id, JSON.stringify(properties)];
}

type Search = readonly (string | undefined)[];

/** Makes a page token. It contains a checksum of the search, so that it is valid only for this search. */
function tokenOf(search: Search, position: string): string {
  return Buffer.from(JSON.stringify([checksum(search), position])).toString('base64url');
}

function checksum(search: Search): string {
  return Bun.hash(JSON.stringify(search)).toString(36);
}

/** Returns the position in `page.token`. Throws `validation_failed` if the token belongs to another search. */
function positionIn(
  { page }: { page?: { token?: string | undefined } | undefined },
  search: Search,
  parse: (position: unknown) => { data?: unknown },
): string | undefined {
  if (!page?.token) return undefined;
  try {
    const [sum, position] = JSON.parse(Buffer.from(page.token, 'base64url').toString());
    if (sum === checksum(search) && typeof position === 'string' && parse(position).data === position)
      return position;
  } catch {}
  throwIfInvalid({ 'page.token': ['must be the `next_token` of a response to the same search'] });
  return undefined;
}

function resultsOf<T>(search: Search, results: readonly T[], next: string | undefined) {
  const next_token = next === undefined ? '' : tokenOf(search, next);
  return { status: 200, body: { page: { next_token, count: results.length }, results } };
}
