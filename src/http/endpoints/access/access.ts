import { z } from 'zod';
import { accessOf } from '../../../domain/access/change.ts';
import { Count, Text, Timestamp, Uuid } from '../../../domain/common-fields.ts';
import { orNotFound } from '../../../domain/error.ts';
import { DecidingRule, explain } from '../../../domain/explain.ts';
import { hasTrait, Permission } from '../../../domain/permission.ts';
import { forPurpose } from '../../../domain/policy.ts';
import { questionAbout } from '../../../domain/principal.ts';
import { Container, canonicalContainer, DestinationReference, Transform } from '../../../domain/rule.ts';
import type { RunSteps, Steps } from '../../../domain/steps.ts';
import { TokenId } from '../../../domain/token.ts';
import type { Store, Subject } from '../../../store/store.ts';
import { Pagination, pageQuery, paginationOf } from '../../pipeline/pagination.ts';
import { readEndpoint, reply } from '../../pipeline/route.ts';
import { example } from '../../reference/examples.ts';
import {
  decodePosition,
  encodePosition,
  type FoundSubject,
  type Review,
  reviewAfter,
  reviewPage,
  riskiestFirst,
} from './review.ts';
import { type ScannedKind, tableOf } from './subject-scan.ts';

const start = z
  .string()
  .transform((text, context) => {
    const position = decodePosition(text);
    if (position) return position;
    context.addIssue('must be a `next` value of an earlier response');
    return z.NEVER;
  })
  .optional()
  .describe('A cursor: the `next` value of an earlier response. The response then has no totals.');

const Query = pageQuery({
  start,
  container: Container.optional().meta({
    description: 'The container to review, for a token in it without a known id.',
    examples: [example.token.container],
  }),
  token: TokenId.optional().describe(
    'The id of the token to review. Either this or `container` is required.',
  ),
  permission: Permission.optional().describe('The permission to review. `token:read` by default.'),
  destination: DestinationReference.optional().describe(
    'Only for `token:use`, and required there: the name or id of the destination.',
  ),
})
  .refine(
    ({ permission, destination }) =>
      hasTrait(permission ?? '', 'destination') === (destination !== undefined),
    { path: ['destination'], error: 'is required for token:use, and only for it' },
  )
  .refine(({ container, token }) => (container === undefined) !== (token === undefined), {
    path: ['container'],
    error: 'is required, or token: send one of them',
  });

const Named = z.object({
  type: z.enum(['application', 'session', 'delegation']).describe('Its type.'),
  id: Uuid.describe('Its id.'),
  name: Text.describe('The name of the application, or of the application of the session or delegation.'),
});
type Named = z.infer<typeof Named>;

const AccessEntry = z
  .object({
    subject: Named.extend({
      subject: Text.optional().describe('Sessions and delegations only: who it is for. Absent if unknown.'),
    }).describe('The application, session or delegation that has access.'),
    permission: Text.describe('The permission that was reviewed.'),
    transform: Transform.describe('How much of the data the subject gets.'),
    require_purpose: z
      .literal(true)
      .optional()
      .describe(
        'With `reveal`: requests that state no purpose get the masked value. Absent if it is not so.',
      ),
    rule: DecidingRule.describe('The rule that allows it.'),
    limited_by: Named.optional().describe(
      'Sessions and delegations only: the application whose key is the ceiling. Absent without a ceiling.',
    ),
    quarantine: Named.optional().describe(
      'Whose quarantine limits the access: that of the subject, of the application of a session or delegation, or of the application that authorized it. Absent if none does.',
    ),
    last_used_at: Timestamp.optional().describe(
      'Applications only: when it last used the permission in the container, or in one above or below, to the minute. Absent if never.',
    ),
  })
  .meta({ id: 'AccessEntry' });
type AccessEntry = z.infer<typeof AccessEntry>;

const AccessReview = z
  .object({
    data: z.array(AccessEntry).describe('Those with access, riskiest first: `reveal`, `mask`, `redact`.'),
    totals: z
      .object({
        reveal: Count.describe('How many get the plaintext.'),
        mask: Count.describe('How many get the masked value.'),
        redact: Count.describe('How many get no data.'),
      })
      .optional()
      .describe(
        'The number of entries by transform. Absent with `start`, and if there are too many to count.',
      ),
    pagination: Pagination,
  })
  .meta({ id: 'AccessReview' });

export const whoHasAccess = readEndpoint({
  name: 'whoHasAccess',
  mayTakeLong: true,
  tag: 'Access review',
  summary: 'Find out who has access',
  description:
    'Returns every application, active session and delegation of your tenant that has a permission in a container or on a token, with the transform, the deciding rule and the last use. An application is listed for its rules, also if it has no valid key at present: see `GET /applications/{id}/keys`. It is not listed after its own expiry. A request examines a limited number of applications and sessions: a page can be short or empty and still have `next`.',
  query: Query,
  replies: { 200: reply('Who has access.', AccessReview, example.accessReview) },
  failures: ['not_found'],
  handle: async ({ principal, query }, { store, longWork }) => {
    const { tenantId } = principal;
    const run = longWork.for(principal);
    const { size, start, permission = 'token:read' } = query;
    const review = { tenantId, permission, resource: await resourceOf(query, tenantId, store) };
    const page = start ? undefined : (query.page ?? 1);
    const { found, next, totals, tooDeep } = start
      ? await reviewAfter(store, run, review, start, size)
      : await reviewPage(store, run, review, query.page ?? 1, size);
    const total = totals && totals.reveal + totals.mask + totals.redact;
    const pagination = {
      ...paginationOf(size, page, { total, tooDeep: tooDeep ?? false }),
      ...(next && { next: encodePosition(next) }),
    };
    const data = await entriesOf(found, run, review, store);
    return { status: 200, body: { data, ...(totals && { totals }), pagination } };
  },
});

async function resourceOf(
  { container, token, destination: reference }: Partial<z.output<typeof Query>>,
  tenantId: string,
  { tokens, destinations }: Store,
) {
  const ids = reference === undefined ? undefined : await destinations.locate(tenantId, [reference]);
  const destination = ids && orNotFound(ids.get(reference as string));
  if (token === undefined) return { container, destination };
  const [stored] = await tokens.locate(tenantId, [token]);
  const { container: own, max_uses } = orNotFound(stored);
  return { id: token, container: own, max_uses, destination };
}

/** Reads the subjects again, with their names and rules. Omits subjects that have lost access since the scan. */
async function entriesOf(
  found: readonly FoundSubject[],
  run: RunSteps,
  review: Review,
  { subjects }: Store,
): Promise<AccessEntry[]> {
  const { tenantId, permission, resource } = review;
  const idsOf = (kind: ScannedKind) => found.filter((one) => tableOf(one.kind) === kind).map(({ id }) => id);
  const [applications, sessions] = [idsOf('application'), idsOf('session')];
  const container = hasTrait(permission, 'scoped') ? canonicalContainer(resource.container ?? '/') : '/';
  const read = [
    ...(applications.length > 0 ? await subjects.applications(tenantId, applications) : []),
    ...(sessions.length > 0 ? await subjects.sessions(tenantId, sessions) : []),
  ];
  const lastUses =
    applications.length > 0
      ? await subjects.lastUses(tenantId, applications, permission, container)
      : new Map<string, string>();
  const entries = await run(explained());
  const inOrder = found.map(({ id }) => entries.get(id)).filter((entry) => entry !== undefined);
  const risk = ({ transform }: AccessEntry) => riskiestFirst.indexOf(transform);
  return inOrder.sort((a, b) => risk(a) - risk(b));

  function* explained(): Steps<Map<string, AccessEntry | undefined>> {
    const entries = new Map<string, AccessEntry | undefined>();
    for (const subject of read) {
      yield;
      entries.set(subject.id, entryOf(subject, review, lastUses));
    }
    return entries;
  }
}

function entryOf(
  subject: Subject,
  { permission, resource }: Review,
  lastUses: ReadonlyMap<string, string>,
): AccessEntry | undefined {
  const question = questionAbout(subject);
  const { transform, rule } = explain(forPurpose(question, 'any'), permission, resource);
  if (!transform || !rule) return undefined;
  const { kind, id, name, subject: person, ceiling, authorizer } = subject;
  const last_used_at = lastUses.get(id);
  const access = accessOf(question.policy, question.ceiling, permission, resource);
  const quarantine = quarantineOf(subject);
  return {
    subject: { type: kind, id, name, ...(person !== undefined && { subject: person }) },
    permission,
    transform,
    ...(access === 'reveal_with_purpose' && { require_purpose: true }),
    rule,
    ...(ceiling && authorizer && { limited_by: { type: 'application', ...authorizer } }),
    ...(quarantine && { quarantine }),
    ...(last_used_at !== undefined && { last_used_at }),
  };
}

function quarantineOf({ id, applicationId, name, grants, authorizer }: Subject): Named | undefined {
  switch (grants.quarantined) {
    case undefined:
      return undefined;
    case 'session':
    case 'delegation':
      return { type: grants.quarantined, id, name };
    case 'application':
      return { type: 'application', id: applicationId, name };
    case 'authorizer':
      return authorizer && { type: 'application', ...authorizer };
  }
}
