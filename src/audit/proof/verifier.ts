/**
 * Verifies exports and archives of the audit log together, and chains of a database. Each chain must be complete from
 * its first segment, and must contain the ends that the system chain has recorded.
 */

import type { ChainKeys, MasterKeys } from '../../db/keys/keyring.ts';
import { chainName, type Head, type Position, systemTenant } from '../records.ts';
import {
  ChainCheck,
  type ChainVerdict,
  cutOff,
  type Expected,
  endOf,
  type Known,
  notInFiles,
  type ReadablePart,
  type VerifiedEntry,
  type WholeLog,
} from './chain-check.ts';
import type { Finding, Problem } from './check.ts';
import { keysOf, type Part } from './export.ts';
import { type SettingChange, settingDifferences } from './settings.ts';
import type { Statement } from './statements.ts';

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
  readonly onEntry?: ((entry: VerifiedEntry) => void) | undefined;
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
  const log = new LogCheck(options, parts);
  for (const finding of found) log.report(finding);
  log.checkComplete();
  // The system chain sorts first. It has the recorded ends of the other chains.
  const chains = [...Map.groupBy(parts, ({ tenantId }) => tenantId)].sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [tenant, some] of chains) await log.checkChain(tenant, some);
  log.checkMissingChains(new Set(chains.map(([tenant]) => tenant)));
  log.checkSystem();
  await log.checkSettings();
  return log.verdict();
}

export function toFinding(problem: Problem, file: string | undefined): Finding {
  return { ...problem, ...(file !== undefined && { file }) };
}

/** The chains together. */
class LogCheck implements WholeLog {
  readonly #options: VerifyOptions;
  readonly archives: 'required' | 'optional' | 'ignored';
  readonly onEntry: VerifyOptions['onEntry'];
  readonly #parts: readonly Part[];
  readonly #system: readonly Part[];
  /** The last segments of the system chain in exports of all chains, and in archives. */
  readonly #systemEnds: { readonly log: number; readonly archive: number };
  readonly #findings: Finding[] = [];
  readonly #notes: string[] = [];
  readonly #chains: ChainVerdict[] = [];
  readonly #anchors: ReadonlyMap<string, readonly Expected[]>;
  /** For each tenant, the last end of its chain that the system chain has recorded. */
  readonly #recorded = new Map<string, Expected>();
  /**
   * The highest position of the system chain that a segment of another chain names. The second one is of a segment in
   * an export of all chains, which must have this position.
   */
  #furthest: Known | undefined;
  #required: Known | undefined;
  readonly #links = new Links();
  readonly #settings: SettingChange[] = [];
  #restored = false;
  #more = 0;
  readonly #total: number;
  #done = 0;

  constructor(options: VerifyOptions, parts: readonly Part[]) {
    this.#options = options;
    this.archives = options.archives ?? 'required';
    this.onEntry = options.onEntry;
    this.#parts = parts;
    this.#system = parts.filter(({ tenantId }) => tenantId === systemTenant);
    const end = (scope: string) =>
      Math.max(
        0,
        ...this.#system.filter(({ header }) => header.scope === scope).map((part) => endOf(part).number),
      );
    this.#systemEnds = { log: end('log'), archive: end('archive') };
    this.#total = parts.reduce((sum, part) => sum + endOf(part).number - part.after.number, 0);
    const anchors = (options.anchors ?? []).map((one) => {
      return { ...one, source: 'the anchor', given: true, required: 'log' as const };
    });
    this.#anchors = Map.groupBy(anchors, ({ tenantId }) => tenantId);
  }

  /** An export of several chains must have all of its parts. */
  checkComplete(): void {
    const whole = this.#parts.filter(({ header }) => header.scope === 'log');
    const exports = Map.groupBy(whole, ({ file, header }) => `${file} ${header.exported_at} ${header.parts}`);
    for (const found of exports.values()) {
      const { file, header } = found[0] as Part;
      const numbers = new Set(found.map((part) => part.header.part));
      if (numbers.size === header.parts && found.length === header.parts) continue;
      const message = `the export had ${header.parts} chains, but has ${found.length}`;
      this.report(toFinding({ code: 'cut_off', message }, file));
    }
  }

  async checkChain(tenantId: string, parts: readonly Part[]): Promise<void> {
    const { log, masters } = this.#options;
    const readable: ReadablePart[] = [];
    for (const part of parts) {
      const keys = keysOf(part.header, masters);
      const isOther = typeof keys !== 'string' && log && Buffer.compare(log.mac, keys.mac) !== 0;
      const message =
        typeof keys === 'string' ? keys : isOther ? 'the export is of another database' : undefined;
      if (typeof keys !== 'string' && message === undefined) readable.push({ part, keys });
      else {
        const place = { chain: chainName(tenantId), ...(part.file && { file: part.file, line: part.line }) };
        this.report({ code: 'wrong_key', ...place, message: message as string });
      }
    }
    const recorded = this.#recorded.get(tenantId);
    const expected = [...(this.#anchors.get(tenantId) ?? []), ...(recorded ? [recorded] : [])];
    const check = new ChainCheck(this, tenantId, readable, expected, readable.length === parts.length);
    this.#chains.push(await check.run());
  }

  async between(tenantId: string, segment: number, verified: number): Promise<void> {
    this.#done += verified;
    const at = { chain: chainName(tenantId), segment };
    const { length: findings } = this.#findings;
    await this.#options.between?.({ done: this.#done, total: this.#total, at, findings });
  }

  /** Call this for each segment with a valid signature; those of the system chain come first. */
  link(tenantId: string, { number, hash }: Position, system: Position | undefined, { header }: Part): void {
    if (tenantId === systemTenant) this.#links.set(number, hash);
    if (!system || system.number === 0) return;
    const named = { number: system.number, source: `segment ${number} of chain ${chainName(tenantId)}` };
    if (named.number > (this.#furthest?.number ?? 0)) this.#furthest = named;
    if (header.scope === 'log' && named.number > (this.#required?.number ?? 0)) this.#required = named;
    if (!this.#links.differs(tenantId, system)) return;
    const message = `segment ${system.number} does not match ${named.source}${this.#restoreNote()}`;
    this.report({ code: 'anchor_differs', chain: 'system', segment: system.number, message });
  }

  /**
   * Reads an entry of the system chain about the log. Only exports or archives whose system chain includes this segment
   * must contain an end that it records: older files cannot.
   */
  readSystem(number: number, at: number, statement: Statement): void {
    const { log, archive } = this.#systemEnds;
    const required = number <= log ? 'log' : number <= archive ? 'archive' : undefined;
    for (const [tenant, end] of statement.heads ?? []) {
      const before = this.#recorded.get(tenant);
      const isWeaker = rank(before?.required) > rank(required);
      if (before && (before.number >= end.number || isWeaker)) continue;
      this.#recorded.set(tenant, { ...end, source: `segment ${number} of the system chain`, required });
    }
    if (statement.reads !== undefined) this.#settings.push({ at, value: statement.reads });
    if (statement.restore) this.#restored = true;
  }

  checkMissingChains(present: ReadonlySet<string>): void {
    const known = [
      ...this.#recorded,
      ...[...this.#anchors].flatMap(([tenant, some]) => some.map((one) => [tenant, one] as const)),
    ];
    for (const [tenantId, one] of known) {
      if (present.has(tenantId) || one.number === 0) continue;
      const chain = chainName(tenantId);
      if (one.required === 'log')
        this.report({ code: 'cut_off', chain, message: cutOff(0, one) + this.#restoreNote() });
      else if (one.required === 'archive' && this.archives === 'required') {
        const range = { segment: 1, last: one.number };
        this.report({ code: 'missing_archive', chain, ...range, message: notInFiles(1, one) });
      }
    }
  }

  /** The system chain must not be shorter than segments of other chains say. */
  checkSystem(): void {
    const { log: end } = this.#systemEnds;
    const [required, furthest] = [this.#required, this.#furthest];
    if (required && required.number > end) {
      const message = cutOff(end, required) + this.#restoreNote();
      this.report({ code: 'cut_off', chain: 'system', ...(end > 0 && { segment: end }), message });
    }
    if (this.#system.length === 0 && this.archives === 'required' && furthest)
      this.note(`the system chain, which has segment ${furthest.number} according to ${furthest.source}`);
  }

  /** Does nothing if only files are verified. */
  async checkSettings(): Promise<void> {
    const part = this.#system.find(({ db }) => db);
    if (!part?.db) return;
    const isComplete = part.after.number === 0 && this.#findings.length === 0;
    for (const message of await settingDifferences(part.db, this.#settings, isComplete))
      this.report({ code: 'changed_settings', chain: 'system', message });
  }

  #restoreNote(): string {
    return this.#restored ? '; the system chain records that the database was restored' : '';
  }

  report(finding: Finding): void {
    if (this.#findings.length >= maxFindings) this.#more += 1;
    else this.#findings.push(finding);
  }

  note(text: string): void {
    this.#notes.push(text);
  }

  verdict(): Verdict {
    const headers = this.#parts.map(({ header }) => header);
    const isArchive = headers.length > 0 && headers.every(({ scope }) => scope === 'archive');
    if (this.archives === 'required' && isArchive) this.note(laterEntries);
    const newest = headers
      .map(({ exported_at }) => exported_at)
      .toSorted()
      .at(-1);
    const sum = (name: 'entries' | 'segments') =>
      this.#chains.reduce((total, chain) => total + chain[name], 0);
    return {
      ok: this.#findings.length === 0,
      ...(newest !== undefined && { exported_at: newest }),
      entries: sum('entries'),
      segments: sum('segments'),
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

function rank(required: Expected['required']): number {
  return required === 'log' ? 2 : required === 'archive' ? 1 : 0;
}

/** Maximum number of segments of the system chain that are compared. Only 4 bytes of each hash are stored. */
const maxLinks = 2 ** 24;

/**
 * The hashes of the system chain. Each segment of another chain signs the end of the system chain at that time. So the
 * removal of the system chain or its end is detected, unless the segments of all other chains are removed too.
 */
class Links {
  #hashes = new Uint32Array(1024);
  /** Chains for which a difference was returned. */
  readonly #reported = new Set<string>();

  set(number: number, hash: string): void {
    if (number >= maxLinks) return;
    if (number >= this.#hashes.length) {
      const larger = new Uint32Array(2 ** Math.ceil(Math.log2(number + 1)));
      larger.set(this.#hashes);
      this.#hashes = larger;
    }
    this.#hashes[number] = startOf(hash);
  }

  /** Whether the system chain has another segment at this position. Returns true once per chain. */
  differs(tenantId: string, { number, hash }: Position): boolean {
    const known = this.#hashes[number] ?? 0;
    if (known === 0 || known === startOf(hash) || this.#reported.has(tenantId)) return false;
    this.#reported.add(tenantId);
    return true;
  }
}

/** The first 4 bytes as a number. Never 0, which stands for an unknown hash. */
function startOf(hash: string): number {
  return Number.parseInt(hash.slice(0, 8), 16) || 1;
}
