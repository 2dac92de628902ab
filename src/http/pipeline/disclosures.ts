/** Records in the audit log which token data a response contains, before it is sent. */
import { resourceOf } from '../../domain/audit.ts';
import { Failure, fail } from '../../domain/error.ts';
import { ruleOf } from '../../domain/explain.ts';
import type { Allowed, Resource } from '../../domain/policy.ts';
import { actorOf, aggregatedBy, type Principal } from '../../domain/principal.ts';
import type { NewEntry } from '../../store/store.ts';
import { addDenial } from './denials.ts';
import { auditFields, type RequestInfo } from './request-info.ts';
import type { Disclosure, HandlerContext, Reply, Report } from './route.ts';

/** A token, or another resource, with the decision that allowed it. */
interface Decided {
  readonly token: Resource;
  readonly verdict: Allowed;
}

/** Groups tokens by transform. Sets `rule` where the same rule decided for all tokens of the group. */
export function disclosuresOf(principal: Pick<Principal, 'kind'>, decided: readonly Decided[]): Disclosure[] {
  return Array.from(
    Map.groupBy(decided, ({ verdict }) => verdict.transform),
    ([transform, some]) => {
      const [{ verdict: first }] = some as [Decided, ...Decided[]];
      const isSame = some.every(
        ({ verdict }) => verdict.rule === first.rule && verdict.isOfCeiling === first.isOfCeiling,
      );
      const rule = isSame ? ruleOf(principal.kind, first) : undefined;
      return { tokens: some.map(({ token }) => token), transform, rule };
    },
  );
}

/** The audit entry fields that describe a disclosure. */
export function disclosureFields({ tokens, transform, rule }: Disclosure) {
  const resource = resourceOf(tokens);
  const isNamed = resource.ids !== undefined || resource.container !== undefined;
  return { ...(isNamed && { resource }), decision: { transform, ...(rule && { rule }) } };
}

/**
 * Counts reads of masked and redacted data in memory. Writes entries about plaintext, about searches, and about allowed
 * decisions that another service reports. The returned promise resolves when they are durable, and rejects with `unavailable` if they
 * cannot be written. Returns undefined if no entry has to be written. Not async, because an `await` adds to the CPU time
 * of masked reads.
 */
export function recordDisclosures(
  operation: string,
  { disclosures = [], search, report }: Pick<Reply, 'disclosures' | 'search' | 'report'>,
  principal: Principal,
  requestInfo: RequestInfo,
  context: HandlerContext,
): Promise<void> | undefined {
  // A response to HEAD has no body, so it discloses nothing.
  if (requestInfo.method === 'HEAD') return undefined;
  if (search)
    return writeEntries(searchEntries(operation, disclosures, search, principal, requestInfo), context);
  const entries: NewEntry[] = [];
  for (const disclosure of disclosures) {
    if (context.auditedReads === 'off' && !principal.policy.quarantined) break;
    if (disclosure.transform === 'reveal')
      entries.push({
        ...auditFields(principal, requestInfo),
        operation,
        ...disclosureFields(disclosure),
        result: 'success',
      });
    else if (context.auditedReads === 'all' || principal.policy.quarantined)
      countRead(operation, disclosure, principal, requestInfo, context);
  }
  if (report) entries.push(...reportedEntries(report, principal, requestInfo, context));
  return entries.length === 0 ? undefined : writeEntries(entries, context);
}

/** An entry for each transform of the tokens that were found, or one if none was. */
function searchEntries(
  operation: string,
  disclosures: readonly Disclosure[],
  search: NonNullable<Reply['search']>,
  principal: Principal,
  requestInfo: RequestInfo,
): NewEntry[] {
  const fields = disclosures.length > 0 ? disclosures.map(disclosureFields) : [{}];
  const entry = { ...auditFields(principal, requestInfo), operation, search, result: 'success' as const };
  return fields.map((found) => ({ ...entry, ...found }));
}

async function writeEntries(entries: readonly NewEntry[], { store }: HandlerContext): Promise<void> {
  try {
    await store.audit.write(entries);
  } catch (error) {
    throw error instanceof Failure ? error : fail('unavailable', { cause: error });
  }
}

function countRead(
  operation: string,
  disclosure: Disclosure,
  principal: Principal,
  requestInfo: RequestInfo,
  { auditRecorder }: HandlerContext,
): void {
  const { tokens, transform, rule } = disclosure;
  const resource = resourceOf(tokens);
  const caller = principal.kind === 'application' ? '' : principal.sessionId;
  const purpose = requestInfo.purpose ?? '';
  const group = {
    quota: aggregatedBy(principal),
    name: `${operation} ${transform} ${caller} ${resource.container} ${rule?.of} ${rule?.rule} ${purpose}`,
    coarseName: `${operation} ${transform}`,
  };
  auditRecorder.add(group, resource, () => ({
    ...auditFields(principal, requestInfo),
    operation,
    decision: { transform, ...(rule && { rule }) },
    result: 'success',
  }));
}

/** Returns entries about the allowed resources. Counts the denied ones in aggregated entries. */
function reportedEntries(
  { actor, operation, purpose, disclosures, denials }: Report,
  caller: Principal,
  requestInfo: RequestInfo,
  { auditRecorder }: HandlerContext,
): NewEntry[] {
  const reportedBy = caller.applicationId;
  for (const denial of denials)
    addDenial(
      auditRecorder,
      { ...denial, isStored: false, actor, operation, purpose, reason: 'permission_missing', reportedBy },
      caller,
      requestInfo,
    );
  return disclosures.map((disclosure) => ({
    ...auditFields(caller, requestInfo),
    actor: actorOf(actor),
    operation,
    ...(purpose !== undefined && { purpose }),
    ...disclosureFields(disclosure),
    result: 'success',
    reported_by: reportedBy,
  }));
}
