/** Proposes smaller grants from recorded use. */
import { z } from 'zod';
import { adviceFor, RankedGrant, rankedUnused, risks } from '../../../domain/access/advice.ts';
import type { Application } from '../../../domain/application.ts';
import { Count, Id, Text, Timestamp, timestamp, Uuid } from '../../../domain/common-fields.ts';
import { orNotFound } from '../../../domain/error.ts';
import { JsonText } from '../../../domain/json-text.ts';
import { Permission } from '../../../domain/permission.ts';
import { compilePolicy } from '../../../domain/policy.ts';
import { Rule } from '../../../domain/rule.ts';
import { StepBudget, type Steps } from '../../../domain/steps.ts';
import type { Use } from '../../../domain/usage.ts';
import type { Store } from '../../../store/store.ts';
import { integer, Pagination, pageFields, paginationOf } from '../../pipeline/pagination.ts';
import { readEndpoint, reply } from '../../pipeline/route.ts';
import { example } from '../../reference/examples.ts';

const day = 24 * 60 * 60_000;
const defaultDays = 90;

/** A page ends before an application that would exceed these limits. 200,000 steps take about a second. */
const maxSteps = 200_000;
const maxPageBytes = 4_194_304;
/** Applications that a page with `summary` covers, and how many of them are read at a time. */
const maxSummarized = 1000;
const batchSize = 100;
/** Applications whose uses one statement reads. */
const usesBatch = 16;

const Query = z.strictObject({
  application_id: Id.optional().describe(
    'Only this application. By default, all applications, newest first.',
  ),
  days: integer(1, 365, defaultDays, 'Grants that were used within this number of days are in use.'),
  summary: z
    .literal(['true', 'false'])
    .optional()
    .describe(
      '`true` to leave out proposals, and all unused grants except the riskiest. A page then covers up to 1,000 applications.',
    ),
  size: integer(1, maxSummarized, 20, 'The maximum number of entries on a page.').transform(
    (size) => size ?? 20,
  ),
  start: pageFields.start,
});

type Risk = (typeof risks)[number];

function byRisk<T>(value: (risk: Risk) => T): Record<Risk, T> {
  return Object.fromEntries(risks.map((risk) => [risk, value(risk)])) as Record<Risk, T>;
}

const AdviceEntry = z
  .object({
    application: z
      .object({
        id: Uuid.describe('The id of the application.'),
        name: Text.describe('Its name.'),
        type: Text.describe('Its type.'),
      })
      .describe('The application.'),
    since: Timestamp.describe('Uses since this time count: `days` ago, or its creation if that is later.'),
    unused: z
      .array(RankedGrant)
      .describe('Grants that were not used since then, riskiest first. With `summary`, only the riskiest.'),
    counts: z
      .object(byRisk((risk) => Count.describe(`Grants with the risk \`${risk}\`.`)))
      .describe('Number of grants that were not used since then.'),
    proposal: z
      .object({
        permissions: z.array(Permission).describe('The permissions that are in use.'),
        rules: z
          .array(Rule)
          .describe('The rules that are in use, with the containers in which they were used.'),
      })
      .optional()
      .describe(
        'Smaller grants that cover every recorded use and allow nothing new. Absent if no grant can be removed safely, and if none was used.',
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
    'Compares the grants of applications with their recorded uses, and proposes the smallest grants that cover them. Every use is recorded, by permission and container, independent of `SALLYPORT_AUDIT_READS`, and written once a minute; if there are many containers, uses are recorded for the container above them. A stricter transform is never proposed, because it is not recorded whether a caller needs the plaintext. Uses of sessions count for the application whose key is their ceiling. A page can have fewer entries than its size, because it is limited to about 4 MiB and a second of processing, and still have `next`.',
  query: Query,
  replies: { 200: reply('The proposals.', AccessAdvice, example.accessAdvice) },
  failures: ['not_found'],
  handle: async (call, { store, longWork, memory }) => {
    const { principal, query } = call;
    const reserve = memory.reserverFor(call);
    const { tenantId, now } = principal;
    const { application_id: id, days = defaultDays, size, start } = query;
    const since = now - days * day;
    const isSummary = query.summary === 'true';
    const on = isSummary ? summaryOn : adviceOn;
    const batch = isSummary ? batchSize : Math.min(size, batchSize);
    const read = async (start: string | undefined) =>
      id === undefined
        ? store.applications.list(tenantId, {}, { size: batch, start, reserve })
        : { rows: [orNotFound(await store.applications.get(tenantId, id))], next: undefined };
    const run = longWork.for(principal);
    const budget = new StepBudget(maxSteps);
    const data: JsonText[] = [];
    let [bytes, left, end] = [0, isSummary ? maxSummarized : size, start];
    // At least one application per page, so that a client that continues with `next` reaches the end.
    const isFull = () => left <= 0 || data.length >= size || budget.isSpent || bytes > maxPageBytes;
    do {
      const { rows, next } = await read(end);
      end = next;
      for await (const { application, uses } of withUses(store, tenantId, rows)) {
        left--;
        const advice = await run(budget.count(on(application, uses, since)));
        if (advice) {
          reserve(advice.bytes);
          data.push(advice);
          bytes += advice.length;
        }
        if (!isFull() || application === rows.at(-1)) continue;
        end = application.id;
        break;
      }
    } while (end !== undefined && !isFull());
    const pagination = paginationOf(size, undefined, { next: end });
    return { status: 200, body: JsonText.extended({ pagination }, 'data', JsonText.list(data)) };
  },
});

/** Reads the uses of a few applications at a time. Each has at most `maxUses`. */
async function* withUses({ usage }: Pick<Store, 'usage'>, tenantId: string, rows: readonly Application[]) {
  for (let at = 0; at < rows.length; at += usesBatch) {
    const some = rows.slice(at, at + usesBatch);
    const uses = await usage.listAll(
      tenantId,
      some.map(({ id }) => id),
    );
    for (const application of some) yield { application, uses: uses.get(application.id) ?? [] };
  }
}

/** Undefined if all grants were used. */
function* adviceOn(
  application: Application,
  uses: readonly Use[],
  since: number,
): Steps<JsonText | undefined> {
  const { unused, proposal } = yield* adviceFor(application, recentOf(uses, since));
  if (unused.length === 0 && !proposal) return undefined;
  return JsonText.of({ ...headOf(application, since, unused), unused, ...(proposal && { proposal }) });
}

/** Like `adviceOn`, without a proposal and with the riskiest grant only. */
function* summaryOn(
  application: Application,
  uses: readonly Use[],
  since: number,
): Steps<JsonText | undefined> {
  const unused = yield* rankedUnused(application, compilePolicy(application), recentOf(uses, since));
  if (unused.length === 0) return undefined;
  return JsonText.of({ ...headOf(application, since, unused), unused: unused.slice(0, 1) });
}

function recentOf(uses: readonly Use[], since: number): Use[] {
  return uses.filter(({ last_used_at }) => Date.parse(last_used_at) >= since);
}

function headOf({ id, name, type, created_at }: Application, since: number, unused: readonly RankedGrant[]) {
  return {
    application: { id, name, type },
    since: timestamp(Math.max(since, Date.parse(created_at))),
    counts: byRisk((risk) => unused.filter((grant) => grant.risk === risk).length),
  };
}
