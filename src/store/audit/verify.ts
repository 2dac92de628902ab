/**
 * Verifies exports and archives of the audit log together. Needs the master key, but no database. Each chain must be
 * complete from its first entry, and must contain the ends that the system chain has recorded.
 */
import { chainName, type Position } from './export-format.ts';
import { systemTenant } from './hash-chain.ts';
import { ChainCheck, endOf as endOfPart } from './verify-chain.ts';
import type { ChainVerdict, Expected, Finding, Part, VerifyOptions } from './verify-chain-options.ts';
import { notInFiles } from './verify-gaps.ts';
import { type SettingChange, settingChangeOf, settingDifferences } from './verify-settings.ts';
import { SystemLinks } from './verify-system.ts';

export interface Verdict {
  readonly ok: boolean;
  /** The time of the newest export. */
  readonly exported_at?: string;
  readonly rows: number;
  readonly checkpoints: number;
  readonly chains: readonly ChainVerdict[];
  readonly findings: readonly Finding[];
  /** How many findings are not listed. */
  readonly more: number;
  /** Notes about what was not verified, such as archived or delivered entries. */
  readonly notes: readonly string[];
}

const maxFindings = 100;

export async function verifyParts(
  parts: readonly Part[],
  options: VerifyOptions,
  unreadable: readonly Finding[] = [],
): Promise<Verdict> {
  const verification = new Verification(options);
  for (const finding of unreadable) verification.report(finding);
  verification.checkComplete(parts);
  const byTenant = Map.groupBy(parts, ({ header }) => header.tenant_id);
  // The system chain sorts first. It has the recorded ends of the other chains.
  const tenants = [...byTenant.keys()].sort();
  for (const tenant of tenants) await verification.verifyChain(tenant, byTenant.get(tenant) as Part[]);
  verification.checkMissingChains(new Set(tenants));
  const systemParts = byTenant.get(systemTenant) ?? [];
  verification.checkSystem(systemParts);
  await verification.checkSettings(systemParts);
  return verification.verdict(parts);
}

class Verification {
  readonly #options: VerifyOptions;
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

  constructor(options: VerifyOptions) {
    this.#options = options;
    for (const { tenantId, seq, hash } of options.anchors ?? [])
      this.#expect(tenantId, { seq, hash, source: 'the anchor', given: true, required: 'log' });
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
    const recorded = this.#recorded.get(tenantId);
    if (recorded) this.#expect(tenantId, recorded);
    const check = new ChainCheck(tenantId, parts, this.#expected.get(tenantId) ?? [], {
      ...this.#options,
      onRow: (row) => {
        const change = tenantId === systemTenant ? settingChangeOf(row.at, row.entry) : undefined;
        if (change) this.#settings.push(change);
        this.#options.onRow?.(row);
      },
      report: (finding) => this.report(finding),
      note: (text) => this.#notes.push(text),
      onPosition: (seq, hash) => {
        if (tenantId === systemTenant) this.#links.record(seq, hash);
      },
      onSystem: (row, system, { header }) => {
        const finding = this.#links.compare(tenantId, row, system, header.scope === 'log');
        if (finding) this.#reportSystem(finding);
      },
      onHeads: (heads, row) => {
        for (const [tenant, position] of heads) this.#record(tenant, position, row, parts);
      },
    });
    this.#chains.push(await check.run());
    if (tenantId === systemTenant) this.#restored = check.restored;
  }

  /**
   * Remembers an end of a chain that `row` of the system chain recorded. Only exports or archives whose system chain
   * includes this row must contain that end: older files cannot.
   */
  #record(tenantId: string, position: Position, row: number, systemParts: readonly Part[]): void {
    const required =
      row <= endOf('log', systemParts) ? 'log' : row <= endOf('archive', systemParts) ? 'archive' : undefined;
    const before = this.#recorded.get(tenantId);
    if (before && (before.seq >= position.seq || rank(before.required) > rank(required))) return;
    this.#recorded.set(tenantId, { ...position, source: `row ${row} of the system chain`, required });
  }

  checkMissingChains(present: ReadonlySet<string>): void {
    const { archives = 'required' } = this.#options;
    for (const [tenantId, { seq, source, required }] of this.#recorded)
      if (present.has(tenantId)) continue;
      else if (required === 'log') this.#missingChain(tenantId, seq, source);
      else if (required === 'archive' && archives === 'required')
        this.report({
          code: 'missing_archive',
          chain: chainName(tenantId),
          row: 1,
          last: seq,
          message: notInFiles(1, seq, source),
        });
    for (const { tenantId, seq } of this.#options.anchors ?? [])
      if (seq > 0 && !present.has(tenantId)) this.#missingChain(tenantId, seq, 'the anchor');
  }

  checkSystem(parts: readonly Part[]): void {
    const finding = this.#links.findMissing(endOf('log', parts));
    if (finding) this.#reportSystem(finding);
    const { archives = 'required' } = this.#options;
    if (parts.length === 0 && archives === 'required' && this.#links.note) this.#notes.push(this.#links.note);
  }

  /** Does nothing if only files are verified. */
  async checkSettings(systemParts: readonly Part[]): Promise<void> {
    const { db } = systemParts.find(({ index }) => index)?.index ?? {};
    if (!db) return;
    const [chain] = this.#chains;
    const isComplete = chain?.first === 1 && this.#findings.length === 0;
    for (const text of await settingDifferences(db, this.#settings, isComplete))
      this.report({
        code: 'changed_settings',
        chain: chainName(systemTenant),
        message: `${text}: run \`sallyport audit reindex --tenant system\``,
      });
  }

  #reportSystem(finding: Finding): void {
    this.report({ ...finding, message: finding.message + this.#restoreNote() });
  }

  #restoreNote(): string {
    return this.#restored ? '; the system chain records that the database was restored' : '';
  }

  #missingChain(tenantId: string, seq: number, source: string): void {
    const message = `the chain is missing, but had row ${seq} according to ${source}${this.#restoreNote()}`;
    this.report({ code: 'missing_chain', chain: chainName(tenantId), message });
  }

  report(finding: Finding): void {
    if (this.#findings.length >= maxFindings) this.#more += 1;
    else this.#findings.push(finding);
  }

  verdict(parts: readonly Part[]): Verdict {
    const { archives = 'required' } = this.#options;
    if (
      archives === 'required' &&
      parts.length > 0 &&
      parts.every(({ header }) => header.scope === 'archive')
    )
      this.#notes.push(laterEntries);
    const newest = parts
      .map(({ header }) => header.exported_at)
      .sort()
      .at(-1);
    const sum = (count: (chain: ChainVerdict) => number) =>
      this.#chains.reduce((total, chain) => total + count(chain), 0);
    return {
      ok: this.#findings.length === 0,
      ...(newest !== undefined && { exported_at: newest }),
      rows: sum(({ rows }) => rows),
      checkpoints: sum(({ checkpoints }) => checkpoints),
      chains: this.#chains,
      findings: this.#findings,
      more: this.#more,
      notes: this.#notes,
    };
  }
}

/** Added if only archives are given: an archive does not say whether another one follows. */
const laterEntries =
  'entries after the last row of each chain, in later archives or in the database. To verify those in the database, pass --database. To check that the files contain a known entry, pass its --anchor';

/** The last row of a chain in exports of all chains, or in archives. */
function endOf(scope: 'log' | 'archive', parts: readonly Part[]): number {
  const some = parts.filter(({ header }) => header.scope === scope);
  return Math.max(0, ...some.map((part) => endOfPart(part).seq));
}

function rank(required: Expected['required']): number {
  return required === 'log' ? 2 : required === 'archive' ? 1 : 0;
}
