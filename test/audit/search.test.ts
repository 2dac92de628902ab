/** A search with the index finds the same entries as a filter over all entries. Time bounds are exact. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { Entry, LogEntry } from '../../src/domain/audit.ts';
import { canonicalContainer, type Transform } from '../../src/domain/rule.ts';
import type { AuditFilter, LogWindow, NewEntry } from '../../src/store/store.ts';
import { databases, startTime } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const uuid = (number: number) => `0190000${number}-0000-7000-8000-000000000000`;
const ids = ['card-1', 'card-2', 'card-3', uuid(1)];
const containers = ['/', '/a/', '/A/b', '/a/b/c/', '/ab/', '/z/'];
const operations = ['token.read', 'token.update', 'application.update'];
const requests = ['request-1', 'request-2', uuid(9)];
const purposes = ['chargeback', 'chargeback 4711', 'support'];
const people = [{ subject: 'ada', email: 'ada@example.com' }, { subject: 'bob' }];
const results = ['success', 'denied', 'failed'] as const;
const transforms: Transform[] = ['redact', 'mask', 'reveal'];

const actor: fc.Arbitrary<Entry['actor']> = fc.oneof(
  fc.constant({ kind: 'operator' as const }),
  fc
    .constantFrom(2, 3)
    .map((id) => ({ kind: 'application' as const, id: uuid(id), application_id: uuid(id) })),
  fc.constantFrom(...people).map((person) => {
    const id = uuid(3);
    return { kind: 'application' as const, id, application_id: id, person };
  }),
  fc.tuple(fc.constantFrom(4, 5), fc.constantFrom(2, 3)).map(([id, of]) => ({
    kind: 'session' as const,
    id: uuid(id),
    application_id: uuid(of),
    ...(id === 4 && { subject: 'user:42' }),
  })),
);

/** Entries whose times are up to 50 ms out of order. Some are far in the future. */
const newEntry = fc
  .record(
    {
      actor,
      operation: fc.constantFrom(...operations),
      result: fc.constantFrom(...results),
      from: fc.constant({}),
      jitter: fc.oneof({ weight: 20, arbitrary: fc.nat(50) }, { weight: 1, arbitrary: fc.constant(100_000) }),
      entity: fc.record({ kind: fc.constantFrom('token', 'application'), id: fc.constantFrom(...ids) }),
      resource: fc.record(
        { ids: fc.uniqueArray(fc.constantFrom(...ids)), container: fc.constantFrom(...containers) },
        { requiredKeys: [] },
      ),
      decision: fc.record({ transform: fc.constantFrom(...transforms) }),
      request_id: fc.constantFrom(...requests),
      purpose: fc.constantFrom(...purposes),
    },
    { requiredKeys: ['actor', 'operation', 'result', 'from', 'jitter'] },
  )
  .map(({ jitter, ...entry }) => ({ jitter, entry: entry as Entry }));

const time = fc.integer({ min: startTime - 20, max: startTime + 400 });
const filter: fc.Arbitrary<AuditFilter> = fc.record(
  {
    token: fc.constantFrom(...ids, 'none'),
    entity: fc.constantFrom(...ids),
    container: fc.constantFrom(...containers),
    actor: fc.constantFrom(2, 3, 4, 5, 6).map(uuid),
    operation: fc.constantFrom(...operations, 'none'),
    result: fc.constantFrom(...results),
    transform: fc.constantFrom(...transforms),
    request_id: fc.constantFrom(...requests),
    subject: fc.constantFrom('user:42', 'user:4'),
    purpose: fc.constantFrom(...purposes, 'chargebac'),
    person: fc.constantFrom('ada', 'ada@example.com', 'bob', 'Ada'),
    changes: fc.constantFrom('true', 'false'),
    from: time,
    to: time,
  },
  { requiredKeys: [] },
);

/** A simple implementation of the filters, from their documentation. */
function isWanted(entry: NewEntry, wanted: AuditFilter): boolean {
  const { token, entity, container, from, to } = wanted;
  const ids = entry.resource?.ids ?? [];
  const isAboutToken = (id: string) =>
    ids.includes(id) || (entry.entity?.kind === 'token' && entry.entity.id === id);
  const path = entry.resource?.container && canonicalContainer(entry.resource.container);
  return [
    token === undefined || isAboutToken(token),
    entity === undefined || entry.entity?.id === entity,
    container === undefined || path?.startsWith(canonicalContainer(container)),
    wanted.actor === undefined || [entry.actor.id, entry.actor.application_id].includes(wanted.actor),
    wanted.operation === undefined || entry.operation === wanted.operation,
    wanted.result === undefined || entry.result === wanted.result,
    wanted.transform === undefined || entry.decision?.transform === wanted.transform,
    wanted.subject === undefined || entry.actor.subject === wanted.subject,
    wanted.purpose === undefined || entry.purpose === wanted.purpose,
    wanted.person === undefined ||
      [entry.actor.person?.subject, entry.actor.person?.email].includes(wanted.person),
    wanted.changes !== 'true' || (entry.result === 'success' && entry.entity !== undefined),
    wanted.request_id === undefined || entry.request_id === wanted.request_id,
    from === undefined || entry.at >= from,
    to === undefined || entry.at < to,
  ].every(Boolean);
}

describe.each(databases)('searching the audit log on %s', async (name, database) => {
  const on = await openTestStore(database);

  async function walk(tenant: string, wanted: AuditFilter, window: LogWindow): Promise<LogEntry[]> {
    const found: LogEntry[] = [];
    const cursor = window.after === undefined ? 'before' : 'after';
    for (let page: LogWindow | undefined = window; page; ) {
      const { entries, next } = await on.store.audit.list(tenant, wanted, page);
      expect(entries.length).toBeLessThanOrEqual(window.limit);
      found.push(...entries);
      page = next === undefined ? undefined : { limit: window.limit, [cursor]: next };
    }
    return found;
  }

  test('finds the same entries as a filter over all of them, in both directions', async () => {
    const runs = name === 'SQLite' ? 30 : 8;
    const log = fc.array(newEntry, { minLength: 1, maxLength: 300 });
    const batches = fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1, maxLength: 5 });
    const queries = fc.array(fc.tuple(filter, fc.constantFrom(1, 3, 20, 100)), {
      minLength: 8,
      maxLength: 8,
    });
    await fc.assert(
      fc.asyncProperty(log, batches, queries, async (generated, sizes, asked) => {
        const tenant = await on.tenant();
        const written: NewEntry[] = generated.map(({ entry, jitter }, number) => ({
          ...entry,
          tenantId: tenant,
          at: startTime + number + jitter,
        }));
        // The entries after the last batch stay pending while the log is read backwards.
        let start = 0;
        for (const size of sizes) {
          await on.store.audit.write(written.slice(start, start + size));
          await on.maintenance.audit.seal();
          start += size;
        }
        await on.store.audit.write(written.slice(start));
        const all = (await walk(tenant, {}, { limit: 100 })).toReversed();
        expect(all.map(({ at }) => Date.parse(at))).toEqual(written.map(({ at }) => at));
        for (const [wanted, limit] of asked) {
          const expected = all.filter((_, number) => isWanted(written[number] as NewEntry, wanted));
          expect(await walk(tenant, wanted, { limit })).toEqual(expected.toReversed());
        }
        const backwards = await Promise.all(asked.map(([wanted, limit]) => walk(tenant, wanted, { limit })));
        await on.maintenance.audit.seal();
        for (const [at, [wanted, limit]] of asked.entries()) {
          const expected = all.filter((_, number) => isWanted(written[number] as NewEntry, wanted));
          expect(await walk(tenant, wanted, { limit })).toEqual(backwards[at] as LogEntry[]);
          const middle = all[all.length >> 1] as LogEntry;
          const later = expected.filter((entry) => all.indexOf(entry) > all.length >> 1);
          expect(await walk(tenant, wanted, { limit, after: middle.id })).toEqual(later);
        }
      }),
      { numRuns: runs },
    );
  });
});
