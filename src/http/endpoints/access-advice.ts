/** Proposes smaller grants from recorded use. */
import { z } from 'zod';
import { adviceFor, RankedGrant } from '../../domain/access-advice.ts';
import type { Application } from '../../domain/application.ts';
import { Id, Timestamp, timestamp } from '../../domain/common-fields.ts';
import { orNotFound } from '../../domain/error.ts';
import { Permission } from '../../domain/permission.ts';
import { Rule } from '../../domain/rule.ts';
import type { Store } from '../../store/store.ts';
import { integer, Pagination, pageFields, paginationOf } from '../pipeline/pagination.ts';
import { readEndpoint, reply } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { nextTurn } from './subject-scan.ts';

const day = 24 * 60 * 60_000;
const defaultDays = 90;

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
  tag: 'Access review',
  summary: 'Propose smaller grants',
  description:
    'Compares the grants of applications with their recorded uses, and proposes the smallest grants that cover them. Every use is recorded, by permission and container, whatever `SALLYPORT_AUDIT_READS` says, and written once a minute; if there are many containers, uses are recorded for the container above them. A stricter transform is never proposed, because it is not recorded whether a caller needs the plaintext. Uses of sessions count for the application whose key is their ceiling. A page can have fewer entries than its size and still have `next`.',
  query: Query,
  replies: { 200: reply('The proposals.', AccessAdvice, example.accessAdvice) },
  failures: ['not_found'],
  handle: async ({ principal: { tenantId, now }, query }, { store }) => {
    const { application_id: id, days = defaultDays, size, start } = query;
    const since = now - days * day;
    const { rows, next } =
      id === undefined
        ? await store.applications.list(tenantId, {}, { size, before: start })
        : { rows: [orNotFound(await store.applications.get(tenantId, id))], next: undefined };
    const data = [];
    for (const application of rows) {
      const advice = await adviceOn(store, application, since);
      if (advice.unused.length > 0 || advice.proposal) data.push(advice);
      await nextTurn();
    }
    return { status: 200, body: { data, pagination: paginationOf(size, undefined, { next }) } };
  },
});

async function adviceOn({ usage }: Store, application: Application, since: number) {
  const { tenant_id, id, name, type, created_at } = application;
  const uses = await usage.list(tenant_id, id);
  const recent = uses.filter(({ last_used_at }) => Date.parse(last_used_at) >= since);
  const { unused, proposal } = adviceFor(application, recent);
  return {
    application: { id, name, type },
    since: timestamp(Math.max(since, Date.parse(created_at))),
    unused,
    ...(proposal && { proposal }),
  };
}
