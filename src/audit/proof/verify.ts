/**
 * Verifies exports and archives of the audit log together, and chains of a database. Each chain must be complete from
 * its first segment, and must contain the ends that the system chain has recorded.
 */

import type { Db, DbTime } from '../../db/db.ts';
import type { ChainKeys, MasterKeys } from '../../db/keys/keyring.ts';
import { databaseTime } from '../../db/sql.ts';
import { readsOperation, readsSetting } from '../../domain/audit.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { chainName, type Head, type Position, systemTenant } from '../records.ts';
import {
  ChainCheck,
  type ChainVerdict,
  cutOff,
  type Expected,
  endOf,
  type Finding,
  notInFiles,
  type VerifiedEntry,
} from './chain-check.ts';
import { CheckThreads } from './check.ts';
import { keysOf, type Part, type Problem } from './export.ts';

export interface Verdict {
  readonly ok: boolean;
  /** The time of the newest export. */
  readonly exported_at?: string;
  readonly entries: number;
  readonly segments: number;
  readonly chains: readonly ChainVerdict[];
  readonly findings: readonly Finding[];
  /** How many findings are not listed. */
  readonly more: number;
  /** Notes about what was not verified, such as archived or delivered entries. */
  readonly notes: readonly string[];
}

export interface VerifyOptions {
  readonly masters: Pick<MasterKeys, 'find' | 'missingReason'>;
  /** Positions that were stored outside the database earlier. */
  readonly anchors?: readonly Head[];
  /** If given, the export must be of the log with these keys. */
  readonly log?: ChainKeys;
  /**
   * What to do if archived segments are not in the given files. `required`, the default, reports a finding. `optional`
   * adds a note. `ignored` does not check for missing segments.
   */
  readonly archives?: 'required' | 'optional' | 'ignored';
  /** Called for every entry with a valid MAC, before the result is known. */
  readonly onEntry?: (entry: VerifiedEntry) => void;
  /** Threads that check segments of the database. Without any, this thread does. */
  readonly threads?: number;
  /** Called after every segment. May throw to stop. */
  readonly between?: ((progress: VerifyProgress) => Promise<void>) | undefined;
}

/** How far the verification is. */
export interface VerifyProgress {
  /** Segments that were verified, and segments in all parts. */
  readonly done: number;
  readonly total: number;
  /** The last segment and its chain. Undefined before the first one. */
  readonly at?: { readonly chain: string; readonly segment: number } | undefined;
  readonly findings: number;
}

const maxFindings = 100;

export async function verifyParts(
  parts: readonly Part[],
  options: VerifyOptions,
  found: readonly Finding[] = [],
): Promise<Verdict> {
  const verification = new Verification(options, parts);
  for (const finding of found) verification.report(finding);
  verification.checkComplete(parts);
  const byTenant = Map.groupBy(parts, ({ tenantId }) => tenantId);
  // The system chain sorts first. It has the recorded ends of the other chains.
  const tenants = [...byTenant.keys()].sort();
  try {
    for (const tenant of tenants) await verification.verifyChain(tenant, byTenant.get(tenant) as Part[]);
  } finally {
    await verification.close();
  }
  verification.checkMissingChains(new Set(tenants));
  const systemParts = byTenant.get(systemTenant) ?? [];
  verification.checkSystem(systemParts);
  await verification.checkSettings(systemParts);
  return verification.verdict(parts);
}

export function toFinding({ code, message, line }: Problem, file: string | undefined): Finding {
  return { code, ...(file !== undefined && { file }), ...(line !== undefined && { line }), message };
}

class Verification {
  readonly #options: VerifyOptions;
  readonly #archives: 'required' | 'optional' | 'ignored';
  readonly #findings: Finding[] = [];
  readonly #notes: string[] = [];
  readonly #chains: ChainVerdict[] = [];
  readonly #expected = new Map<string, Expected[]>();
  /** For each tenant, the last end of its chain that the system chain has recorded. */
  readonly #recorded = new Map<string, Expected>();
  readonly #links = new SystemLinks();
  readonly #settings: SettingChange[] = [];
  /** Whether the system chain records a restore. */
  #restored = false;
  #more = 0;
  #threads: CheckThreads | undefined;
  readonly #total: number;
  #done = 0;

  constructor(options: VerifyOptions, parts: readonly Part[]) {
    this.#options = options;
    this.#total = parts.reduce((sum, part) => sum + endOf(part).number - part.after.number, 0);
    this.#archives = options.archives ?? 'required';
    for (const { tenantId, number, hash } of options.anchors ?? [])
      this.#expect(tenantId, { number, hash, source: 'the anchor', given: true, required: 'log' });
  }

  #expect(tenantId: string, expected: Expected): void {
    const others = this.#expected.get(tenantId);
    if (others) others.push(expected);
    else this.#expected.set(tenantId, [expected]);
  }

  /** An export of several chains must have all of its parts. */
  checkComplete(parts: readonly Part[]): void {
    const whole = parts.filter(({ header }) => header.scope === 'log');
    const exports = Map.groupBy(whole, ({ file, header }) => `${file} ${header.exported_at} ${header.parts}`);
    for (const found of exports.values()) {
      const { file, header } = found[0] as Part;
      const numbers = new Set(found.map((part) => part.header.part));
      if (numbers.size === header.parts && found.length === header.parts) continue;
      const message = `the export had ${header.parts} chains, but has ${found.length}`;
      this.report({ code: 'cut_off', ...(file !== undefined && { file }), message });
    }
  }

  async verifyChain(tenantId: string, parts: readonly Part[]): Promise<void> {
    const { log, masters, onEntry, between } = this.#options;
    const readable: { part: Part; keys: ChainKeys }[] = [];
    for (const part of parts) {
      const keys = keysOf(part.header, masters);
      const isOther = typeof keys !== 'string' && log && Buffer.compare(log.mac, keys.mac) !== 0;
      const problem =
        typeof keys === 'string' ? keys : isOther ? 'the export is of another database' : undefined;
      if (typeof keys !== 'string' && problem === undefined) readable.push({ part, keys });
      else
        this.report({
          code: 'wrong_key',
          chain: chainName(tenantId),
          ...(part.file && { file: part.file, line: part.line }),
          message: problem as string,
        });
    }
    const recorded = this.#recorded.get(tenantId);
    if (recorded) this.#expect(tenantId, recorded);
    const isSystem = tenantId === systemTenant;
    const check = new ChainCheck(tenantId, readable, this.#expected.get(tenantId) ?? [], {
      archives: this.#archives,
      isComplete: readable.length === parts.length,
      report: (finding) => this.report(finding),
      note: (text) => this.#notes.push(text),
      onEntry,
      threads: this.#threadsFor(readable),
      onSegment: ({ number, hash }) => {
        if (isSystem) this.#links.record(number, hash);
      },
      between: async (segment, verified = 1) => {
        this.#done += verified;
        const at = { chain: chainName(tenantId), segment };
        await between?.({ done: this.#done, total: this.#total, at, findings: this.#findings.length });
      },
      onSystem: (number, system, { header }) => {
        const finding = this.#links.compare(tenantId, number, system, header.scope === 'log');
        if (finding) this.#reportSystem(finding);
      },
      onHeads: (heads, number) => {
        for (const [tenant, position] of isSystem ? heads : []) this.#record(tenant, position, number, parts);
      },
      onReads: (at, value) => {
        if (isSystem) this.#settings.push({ at, value });
      },
    });
    this.#chains.push(await check.run());
    if (isSystem) this.#restored = check.restored;
  }

  /** Starts threads for the first chain of the database. Its chains have the same keys. */
  #threadsFor(parts: readonly { readonly part: Part; readonly keys: ChainKeys }[]): CheckThreads | undefined {
    const stored = parts.find(({ part }) => part.db);
    const { threads = 0 } = this.#options;
    if (stored && threads > 0) this.#threads ??= new CheckThreads(stored.keys, threads);
    return this.#threads;
  }

  async close(): Promise<void> {
    await this.#threads?.close();
  }

  /**
   * Remembers an end of a chain that a segment of the system chain recorded. Only exports or archives whose system chain
   * includes this segment must contain that end: older files cannot.
   */
  #record(tenantId: string, position: Position, number: number, systemParts: readonly Part[]): void {
    const required =
      number <= lastIn('log', systemParts)
        ? 'log'
        : number <= lastIn('archive', systemParts)
          ? 'archive'
          : undefined;
    const before = this.#recorded.get(tenantId);
    if (before && (before.number >= position.number || rank(before.required) > rank(required))) return;
    this.#recorded.set(tenantId, { ...position, source: `segment ${number} of the system chain`, required });
  }

  checkMissingChains(present: ReadonlySet<string>): void {
    for (const [tenantId, { number, source, required }] of this.#recorded)
      if (present.has(tenantId)) continue;
      else if (required === 'log') this.#missingChain(tenantId, number, source);
      else if (required === 'archive' && this.#archives === 'required')
        this.report({
          code: 'missing_archive',
          chain: chainName(tenantId),
          segment: 1,
          last: number,
          message: notInFiles(1, number, source),
        });
    for (const { tenantId, number } of this.#options.anchors ?? [])
      if (number > 0 && !present.has(tenantId)) this.#missingChain(tenantId, number, 'the anchor');
  }

  checkSystem(parts: readonly Part[]): void {
    const finding = this.#links.findMissing(lastIn('log', parts));
    if (finding) this.#reportSystem(finding);
    if (parts.length === 0 && this.#archives === 'required' && this.#links.note)
      this.#notes.push(this.#links.note);
  }

  /** Does nothing if only files are verified. */
  async checkSettings(systemParts: readonly Part[]): Promise<void> {
    const part = systemParts.find(({ db }) => db);
    if (!part?.db) return;
    const isComplete = part.after.number === 0 && this.#findings.length === 0;
    for (const message of await settingDifferences(part.db, this.#settings, isComplete))
      this.report({ code: 'changed_settings', chain: chainName(systemTenant), message });
  }

  #reportSystem(finding: Finding): void {
    this.report({ ...finding, message: finding.message + this.#restoreNote() });
  }

  #restoreNote(): string {
    return this.#restored ? '; the system chain records that the database was restored' : '';
  }

  #missingChain(tenantId: string, number: number, source: string): void {
    const message = cutOff(0, number, source) + this.#restoreNote();
    this.report({ code: 'cut_off', chain: chainName(tenantId), message });
  }

  report(finding: Finding): void {
    if (this.#findings.length >= maxFindings) this.#more += 1;
    else this.#findings.push(finding);
  }

  verdict(parts: readonly Part[]): Verdict {
    const isArchive = parts.length > 0 && parts.every(({ header }) => header.scope === 'archive');
    if (this.#archives === 'required' && isArchive) this.#notes.push(laterEntries);
    const newest = parts
      .map(({ header }) => header.exported_at)
      .sort()
      .at(-1);
    const sum = (count: (chain: ChainVerdict) => number) =>
      this.#chains.reduce((total, chain) => total + count(chain), 0);
    return {
      ok: this.#findings.length === 0,
      ...(newest !== undefined && { exported_at: newest }),
      entries: sum(({ entries }) => entries),
      segments: sum(({ segments }) => segments),
      chains: this.#chains,
      findings: this.#findings,
      more: this.#more,
      notes: this.#notes,
    };
  }
}

/** Added if only archives are given: an archive does not say whether another one follows. */
const laterEntries =
  'entries after the last segment of each chain, in later archives or in the database. To verify those in the database, pass --database. To check that the files contain a known segment, pass its --anchor';

/** The last segment of a chain in exports of all chains, or in archives. */
function lastIn(scope: 'log' | 'archive', parts: readonly Part[]): number {
  const some = parts.filter(({ header }) => header.scope === scope);
  return Math.max(0, ...some.map((part) => endOf(part).number));
}

function rank(required: Expected['required']): number {
  return required === 'log' ? 2 : required === 'archive' ? 1 : 0;
}

/** Maximum number of entries that are compared. Only 4 bytes of each hash are stored. */
const maxPositions = 2 ** 24;

/**
 * Compares the system chain with the segments of the other chains. Each of these segments signs the end of the system
 * chain at that time. So the removal of the system chain or its end is detected, unless the segments of all other chains
 * are removed too.
 */
class SystemLinks {
  #hashes = new Uint32Array(1024);
  /** The highest position of the system chain that a segment mentions, and which segment. */
  #furthest: { readonly number: number; readonly source: string } | undefined;
  /**
   * Like `#furthest`, for segments in exports of all chains. The system chain of the export must reach this
   * position.
   */
  #required: { readonly number: number; readonly source: string } | undefined;
  /** Chains for which a finding was returned. */
  readonly #reported = new Set<string>();

  /** Call this for every position of the system chain before the first call of `compare`. */
  record(seq: number, hash: string): void {
    if (seq >= maxPositions) return;
    if (seq >= this.#hashes.length) {
      const larger = new Uint32Array(2 ** Math.ceil(Math.log2(seq + 1)));
      larger.set(this.#hashes);
      this.#hashes = larger;
    }
    this.#hashes[seq] = startOf(hash);
  }

  /**
   * Compares the segment with `number` with the system chain. `isComplete`: the segment is in an export of all chains.
   * Returns a finding if they differ, at most one per chain.
   */
  compare(tenantId: string, number: number, system: Position, isComplete: boolean): Finding | undefined {
    const { number: seq, hash } = system;
    if (seq === 0) return undefined;
    const source = `segment ${number} of chain ${chainName(tenantId)}`;
    if (seq > (this.#furthest?.number ?? 0)) this.#furthest = { number: seq, source };
    if (isComplete && seq > (this.#required?.number ?? 0)) this.#required = { number: seq, source };
    const known = this.#hashes[seq] ?? 0;
    if (known === 0 || known === startOf(hash) || this.#reported.has(tenantId)) return undefined;
    this.#reported.add(tenantId);
    return {
      code: 'anchor_differs',
      chain: chainName(systemTenant),
      segment: seq,
      message: `segment ${seq} does not match ${source}`,
    };
  }

  /**
   * Returns a finding if the system chain is shorter than segments of other chains say. `end` is the last row of the
   * system chain in exports of all chains.
   */
  findMissing(end: number): Finding | undefined {
    if (!this.#required || this.#required.number <= end) return undefined;
    const { number, source } = this.#required;
    const message = cutOff(end, number, source);
    return { code: 'cut_off', chain: chainName(systemTenant), ...(end > 0 && { segment: end }), message };
  }

  /** A note for files without the system chain. */
  get note(): string | undefined {
    return (
      this.#furthest &&
      `the system chain, which has segment ${this.#furthest.number} according to ${this.#furthest.source}`
    );
  }
}

/** The first 4 bytes as a number. Never 0, which stands for an unknown hash. */
function startOf(hash: string): number {
  return Number.parseInt(hash.slice(0, 8), 16) || 1;
}

/** Milliseconds. A change that is older than this must have an entry that is sealed or pending. */
const maxUnsealed = 60_000;

/** A change in the table `setting_changes`. Each one is also an entry of the system chain. */
interface SettingChange {
  readonly at: number;
  readonly value: string;
}

/**
 * Describes how the tables `settings` and `setting_changes` differ from `changes`, which were read from the log.
 * `isComplete`: no entry of the system chain is missing. Changes that are not sealed yet are ignored.
 */
async function settingDifferences(
  db: Pick<Db, 'all' | 'get'>,
  changes: readonly SettingChange[],
  isComplete: boolean,
): Promise<string[]> {
  // If several changes have the same time, the last one counts.
  const logged = new Map(changes.map(({ at, value }) => [at, value]));
  const rows = await db.all<{ at: DbTime; value: string }>(
    'select at, value from setting_changes where name = $1 order by at',
    [readsSetting],
  );
  const stored = new Map(rows.map(({ at, value }) => [Number(at), value]));
  const pending = new Set(
    (await db.all<{ at: DbTime }>('select at from audit_pending where tenant_id = $1', [systemTenant])).map(
      ({ at }) => Number(at),
    ),
  );
  const newest = Math.max(...logged.keys());
  const missing = [...logged].filter(([at, value]) => stored.get(at) !== value);
  const now = await databaseTime(db);
  const isAdded = (at: number) => !logged.has(at) && !pending.has(at) && at < now - maxUnsealed;
  const added = [...stored].filter(([at]) => isComplete && isAdded(at));
  const current = await db.get<{ value: string }>('select value from settings where name = $1', [
    readsSetting,
  ]);
  const isNewer = [...stored.keys(), ...pending].some((at) => at > newest);
  const change = ([at, value]: [number, string]) => `SALLYPORT_AUDIT_READS=${value} of ${timestamp(at)}`;
  return [
    ...missing.map((one) => `the table setting_changes does not have ${change(one)}`),
    ...added.map((one) => `the log does not have ${change(one)}, which is in the table setting_changes`),
    ...(logged.size > 0 && !isNewer && current?.value !== logged.get(newest)
      ? [`the table settings has another value than the last entry ${readsOperation}`]
      : []),
  ];
}
