/** The result of `sallyport import`: what was copied, what was not, and why. */
import type { Call } from '../command.ts';
import { only } from '../terminal/options.ts';
import { fields } from '../terminal/print.ts';
import type { Kind } from './import-source.ts';
import { noTokens, type TokenCounts } from './import-tokens.ts';

export interface Report {
  readonly applications: ApplicationCounts;
  readonly tokens: TokenCounts;
  /** Name of a field or permission that was not copied → number of records that had it. */
  readonly notCopied: Map<string, number>;
  /** One sentence for each record that is missing or different in the target. */
  readonly failures: string[];
  readonly keyFiles: string[];
}

interface ApplicationCounts {
  read: number;
  created: number;
  unchanged: number;
  /** Applications that exist in the target with other grants. They are not changed. */
  different: number;
  /** Management applications, which are not imported. */
  skipped: number;
  expired: number;
}

export function emptyReport(): Report {
  return {
    applications: { read: 0, created: 0, unchanged: 0, different: 0, skipped: 0, expired: 0 },
    tokens: noTokens(),
    notCopied: new Map(),
    failures: [],
    keyFiles: [],
  };
}

/** Adds one to the total of each name. */
export function countNames(totals: Map<string, number>, names: readonly string[]): void {
  for (const name of new Set(names)) totals.set(name, (totals.get(name) ?? 0) + 1);
}

/** Limits the printed failures. With --json, all are listed. */
const maxPrinted = 50;

type Totals = Readonly<Record<Kind, number | undefined>>;

/** `inSource` has the numbers of records that the source reports, if it reports them. Returns the exit code. */
export function printReport(
  { options, terminal, printResult }: Call,
  report: Report,
  inSource: Totals,
): number {
  const { tokens, applications, notCopied, keyFiles } = report;
  const missing = (['applications', 'tokens'] as const)
    .filter((kind) => report[kind].read < (inSource[kind] ?? 0))
    .map((kind) => `only ${report[kind].read} of ${inSource[kind]} ${kind} of the source could be read`);
  const failures = [...missing, ...report.failures];
  for (const failure of failures.slice(0, maxPrinted))
    terminal.writeError(`sallyport: warning: ${failure}\n`);
  if (failures.length > maxPrinted)
    terminal.writeError(`sallyport: warning: ${failures.length - maxPrinted} more; --json prints them\n`);
  const isDryRun = options.on('dry-run');
  const isComplete = failures.length === 0;
  const value = {
    complete: isComplete,
    dry_run: isDryRun,
    applications: { ...applications, ...only({ in_source: inSource.applications }) },
    tokens: { ...tokens, ...only({ in_source: inSource.tokens }) },
    not_copied: Object.fromEntries(notCopied),
    key_files: keyFiles,
    failures,
  };
  return printResult(value, formatReport(report, inSource, isDryRun, isComplete), isComplete ? 0 : 1);
}

function formatReport(
  { applications, tokens, notCopied }: Report,
  inSource: Totals,
  isDryRun: boolean,
  isComplete: boolean,
): string {
  const done = (past: string, future: string) => (isDryRun ? future : past);
  const notCompared = tokens.dataNotCompared;
  return fields([
    [
      'applications',
      `${outOf(applications.read, inSource.applications)} read: ${listed([
        [done('created', 'to create'), applications.created],
        ['unchanged', applications.unchanged],
        ['different', applications.different],
        ['skipped (management)', applications.skipped],
        ['expired (not copied)', applications.expired],
      ])}`,
    ],
    [
      'tokens',
      `${outOf(tokens.read, inSource.tokens)} read: ${listed([
        [done('copied', 'to copy'), tokens.copied],
        [done('replaced', 'to replace'), tokens.replaced],
        ['unchanged', tokens.unchanged],
        ['different', tokens.different],
        ['expired (not copied)', tokens.expired],
        ['failed', tokens.failed],
      ])}`,
    ],
    ['verified', `${tokens.verified} tokens are equal in source and target`],
    [
      'without data',
      notCompared > 0 ? `${notCompared} of them, because your key does not see their data` : '',
    ],
    ['no container', tokens.defaultContainer > 0 ? `${tokens.defaultContainer} tokens, as in /general/` : ''],
    ['not copied', [...notCopied].map(([name, count]) => `${name} (${count})`).join(', ')],
    ['result', isComplete ? done('complete', 'ready to import') : 'incomplete: see the warnings'],
  ]);
}

function outOf(read: number, total: number | undefined): string {
  return total === undefined ? String(read) : `${read} of ${total}`;
}

function listed(counts: readonly (readonly [name: string, count: number])[]): string {
  const present = counts.filter(([, count]) => count > 0);
  return present.map(([name, count]) => `${count} ${name}`).join(', ') || 'none';
}
