/** Reads the newest entries of all chains of the audit log, and then those that follow. */
import type { LogEntry } from '../../domain/audit.ts';
import type { AuditFilter } from '../records.ts';
import { type AuditDb, allChains, type Chain, segmentsIn } from './chain.ts';
import { cursorOf, toLogEntry } from './entry.ts';
import type { Sealer } from './seal.ts';
import { searchBackwards } from './search.ts';
import { isBetween, matches } from './terms.ts';

/** Maximum number of entries per page, and of segments per statement. */
const maxPage = 500;
const maxSegments = 8;

export class AuditTail {
  readonly #audit: AuditDb;
  readonly #sealer: Pick<Sealer, 'sealAll'>;
  readonly #filter: AuditFilter;
  readonly #tenant: string | undefined;
  /** The tenant of each chain → the segment up to which it was read. */
  readonly #read = new Map<string, number>();

  /** Without a tenant, reads all chains. */
  constructor(
    audit: AuditDb,
    sealer: Pick<Sealer, 'sealAll'>,
    filter: AuditFilter,
    tenant: string | undefined,
  ) {
    this.#audit = audit;
    this.#sealer = sealer;
    this.#filter = filter;
    this.#tenant = tenant;
  }

  /** The newest `count` matching entries of all chains, oldest first. Call it once, before `more`. */
  async last(count: number): Promise<LogEntry[]> {
    let found: LogEntry[] = [];
    for (const chain of (await this.#chains()).toSorted((a, b) => b.sealedAt - a.sealedAt)) {
      // No entry of a chain is newer than its end.
      const isOlder = found.length === count && chain.sealedAt < timeOf(found[0] as LogEntry);
      if (!isOlder) found = sorted([...(await this.#newest(chain, count)), ...found]).slice(-count);
      this.#read.set(chain.tenantId, chain.number);
    }
    return found;
  }

  /** Matching entries since the previous call, by chain. If a call fails, the next one continues where it stopped. */
  async *more(): AsyncGenerator<LogEntry[]> {
    for (const { tenantId, number, base } of await this.#chains()) {
      let after = Math.max(this.#read.get(tenantId) ?? 0, base.number);
      while (after < number) {
        const range = { first: after + 1, last: number };
        const segments = await segmentsIn(this.#audit.db, tenantId, range, 'asc', maxSegments);
        for (const { packed } of segments) {
          const entries = (packed.all() ?? []).filter(({ at }) => isBetween(at, this.#filter));
          yield entries
            .map((entry) => toLogEntry(tenantId, entry))
            .filter((one) => matches(one, this.#filter));
        }
        after = segments.at(-1)?.number ?? number;
        this.#read.set(tenantId, after);
      }
    }
  }

  /** The chains, after all entries that were written are sealed. */
  async #chains(): Promise<Chain[]> {
    await this.#sealer.sealAll();
    const chains = await allChains(this.#audit.db);
    return this.#tenant === undefined ? chains : chains.filter(({ tenantId }) => tenantId === this.#tenant);
  }

  /** Reads backwards from the end until `count` entries match. */
  async #newest({ tenantId, number }: Chain, count: number): Promise<LogEntry[]> {
    const found: LogEntry[] = [];
    let before: string | undefined = cursorOf({ number: number + 1, offset: 0 });
    while (before !== undefined && found.length < count) {
      const window = { limit: Math.min(count - found.length, maxPage), before };
      const page = await searchBackwards(this.#audit.db, tenantId, this.#filter, window);
      found.push(...page.entries);
      before = page.next;
    }
    return found.reverse();
  }
}

function timeOf({ at }: LogEntry): number {
  return Date.parse(at);
}

/** By time, and entries of the same time by id: in the order in which a process wrote them. */
function sorted(entries: LogEntry[]): LogEntry[] {
  return entries.sort((a, b) => timeOf(a) - timeOf(b) || (a.id < b.id ? -1 : 1));
}
