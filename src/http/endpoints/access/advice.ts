/** Proposes smaller grants from recorded use. */
import { z } from 'zod';
import { adviceFor, RankedGrant } from '../../../domain/access/advice.ts';
import type { Application } from '../../../domain/application.ts';
import { Id, Timestamp, timestamp } from '../../../domain/common-fields.ts';
import { orNotFound } from '../../../domain/error.ts';
import { JsonText } from '../../../domain/json-text.ts';
import { Permission } from '../../../domain/permission.ts';
import { Rule } from '../../../domain/rule.ts';
import { StepBudget, type Steps } from '../../../domain/steps.ts';
import type { Use } from '../../../domain/usage.ts';
import { integer, Pagination, pageFields, paginationOf } from '../../pipeline/pagination.ts';
import { readEndpoint, reply } from '../../pipeline/route.ts';
import { example } from '../../reference/examples.ts';

const day = 24 * 60 * 60_000;
const defaultDays = 90;

/** A page ends before an application that would exceed these limits. 200,000 steps take about a second. */
const maxSteps = 200_000;
const maxPageBytes = 4_194_304;

const Query = z.strictObject({
  application_id: Id.optional().describe(
    'Only this application. By default, all applications, newest first.',
  ),
  days: integer(1, 365, defaultDays, 'Grants that were used within this number of days are kept.'),
  size: pageFields.size,
  start: pageFields.start,
});

const AdviceEntry = z
  .object({
    application: z
      .object({
        id: z.uuid().describe('The id of the application.'),
        name: z.string().describe('Its name.'),
        type: z.string().describe('Its type.'),
      })
      .describe('The application.'),
    since: Timestamp.describe('Uses since this time count: `days` ago, or its creation if that is later.'),
    unused: z.array(RankedGrant).describe('Grants that were not used since then, riskiest first.'),
    proposal: z
      .object({
        permissions: z.array(Permission).describe('The permissions to keep.'),
        rules: z.array(Rule).describe('The rules to keep, with the containers in which they were used.'),
      })
      .optional()
      .describe(
        'Smaller grants that cover every recorded use and allow nothing new. Absent if nothing can be removed safely, and if nothing was used.',
      ),
  })
  .meta({ id: 'AdviceEntry' });

const AccessAdvice = z
  .object({
    data: z.array(AdviceEntry).describe('Applications with unused grants or a proposal.'),
    pagination: Pagination,
  })
  .meta({ id: 'AccessAdvice' });

export const adviseAccess = readEndpoint({
  name: 'adviseAccess',
  mayTakeLong: true,
  tag: 'Access review',
  summary: 'Propose smaller grants',
  description:
    'Compares the grants of applications with their recorded uses, and proposes the smallest grants that cover them. Every use is recorded, by permission and container, whatever `SALLYPORT_AUDIT_READS` says, and written once a minute; if there are many containers, uses are recorded for the container above them. A stricter transform is never proposed, because it is not recorded whether a caller needs the plaintext. Uses of sessions count for the application whose key is their ceiling. A page can have fewer entries than its size, because it is limited to about 4 MiB and a second of processing, and still have `next`.',
  query: Query,
  replies: { 200: reply('The proposals.', AccessAdvice, example.accessAdvice) },
  failures: ['not_found'],
  handle: async ({ principal, query }, { store, longWork }) => {
    const { tenantId, now } = principal;
    const { application_id: id, days = defaultDays, size, start } = query;
    const since = now - days * day;
    const { rows, next } =
      id === undefined
        ? await store.applications.list(tenantId, {}, { size, before: start })
        : { rows: [orNotFound(await store.applications.get(tenantId, id))], next: undefined };
    const run = longWork.for(principal);
    const budget = new StepBudget(maxSteps);
    const data: JsonText[] = [];
    let [bytes, last] = [0, undefined as string | undefined];
    for (const application of rows) {
      // At least one application per page, so that a client that continues with `next` reaches the end.
      if (last !== undefined && (budget.isSpent || bytes > maxPageBytes)) break;
      last = application.id;
      const uses = await store.usage.list(tenantId, application.id);
      const advice = await run(budget.count(adviceOn(application, uses, since)));
      if (!advice) continue;
      data.push(advice);
      bytes += advice.text.length;
    }
    const end = last === undefined || last === rows.at(-1)?.id ? next : last;
    const pagination = paginationOf(size, undefined, { next: end });
    return { status: 200, body: JsonText.extended({ pagination }, 'data', JsonText.list(data)) };
  },
});

/** Undefined if all grants were used. */
function* adviceOn(
  application: Application,
  uses: readonly Use[],
  since: number,
): Steps<JsonText | undefined> {
  const { id, name, type, created_at } = application;
  const recent = uses.filter(({ last_used_at }) => Date.parse(last_used_at) >= since);
  const { unused, proposal } = yield* adviceFor(application, recent);
  if (unused.length === 0 && !proposal) return undefined;
  return JsonText.of({
    application: { id, name, type },
    since: timestamp(Math.max(since, Date.parse(created_at))),
    unused,
    ...(proposal && { proposal }),
  });
}
