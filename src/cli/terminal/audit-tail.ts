/** Reads the newest entries of all hash chains of the audit log, and then those that follow. */
import type { LogEntry } from '../../domain/audit.ts';
import { entryId } from '../../store/audit/entry-id.ts';
import { systemTenant } from '../../store/audit/hash-chain.ts';
import { isBetween, matches } from '../../store/audit/terms.ts';
import type { AuditChain, ChainHead } from '../../store/maintenance.ts';
import type { AuditFilter } from '../../store/store.ts';

/** Maximum number of entries per transaction and per read. */
const batchSize = 500;

type Reader = Pick<AuditChain, 'append' | 'heads' | 'list' | 'range'>;

export class AuditTail {
  readonly #audit: Reader;
  readonly #filter: AuditFilter;
  readonly #tenant: string | undefined;
  /** The tenant of each chain → the position up to which it was read. */
  readonly #read = new Map<string | undefined, number>();

  /** Without a tenant, reads all chains. */
  constructor(audit: Reader, filter: AuditFilter, tenant: string | undefined) {
    this.#audit = audit;
    this.#filter = filter;
    this.#tenant = tenant;
  }

  /** The newest `count` matching entries of all chains, oldest first. Call it once, before `more`. */
  async last(count: number): Promise<LogEntry[]> {
    const heads = await this.#heads();
    let found: LogEntry[] = [];
    for (const head of heads.toSorted((a, b) => b.at - a.at)) {
      // No entry of a chain is newer than its head.
      const isOlder = found.length === count && head.at < timeOf(found[0] as LogEntry);
      if (!isOlder) found = sorted([...(await this.#newest(head, count)), ...found]).slice(-count);
      this.#read.set(head.tenantId, head.seq);
    }
    return found;
  }

  /** Matching entries since the previous call, by chain. If a call fails, the next one continues where it stopped. */
  async *more(): AsyncGenerator<LogEntry[]> {
    for (const { tenantId, seq } of await this.#heads()) {
      let after: number | undefined = this.#read.get(tenantId) ?? 0;
      while (after !== undefined && after < seq) {
        const { entries, end } = await this.#audit.range(tenantId, { after, upTo: seq }, batchSize);
        yield entries.filter(this.#isWanted).map(({ seq: _, ...entry }) => entry);
        this.#read.set(tenantId, end ?? seq);
        after = end;
      }
    }
  }

  readonly #isWanted = (entry: LogEntry) =>
    matches(entry, this.#filter) && isBetween(timeOf(entry), this.#filter);

  /** The ends of the chains, after all entries that were written are chained. */
  async #heads(): Promise<ChainHead[]> {
    while ((await this.#audit.append(batchSize)) > 0);
    const heads = await this.#audit.heads();
    return this.#tenant === undefined ? heads : heads.filter(({ tenantId }) => tenantId === this.#tenant);
  }

  /** Reads backwards from the head until `count` entries match. */
  async #newest({ tenantId, seq }: ChainHead, count: number): Promise<LogEntry[]> {
    const found: LogEntry[] = [];
    let before: string | undefined = entryId(0, seq + 1, tenantId ?? systemTenant);
    while (before !== undefined && found.length < count) {
      const window = { limit: Math.min(count - found.length, batchSize), before };
      const page = await this.#audit.list(tenantId, this.#filter, window);
      found.push(...page.entries);
      before = page.next;
    }
    return found.reverse();
  }
}

function timeOf({ at }: LogEntry): number {
  return Date.parse(at);
}

/** By time. Entries of the same chain and time stay in order. */
function sorted(entries: LogEntry[]): LogEntry[] {
  return entries.sort((a, b) => timeOf(a) - timeOf(b));
}
