/** The result of `sallyport import`: what was copied, what was not, and why. */
import type { Call } from '../command.ts';
import type { Interrupted } from '../errors.ts';
import type { NewLines } from '../terminal/files.ts';
import { only } from '../terminal/options.ts';
import { fields } from '../terminal/print.ts';
import type { Fault, Kind, Origin } from './import-source.ts';
import { noTokens, type TokenCounts, tokensLeft } from './import-tokens.ts';

export interface Report {
  readonly applications: ApplicationCounts;
  readonly tokens: TokenCounts;
  /** Name of a field or permission that was not copied → number of records that had it. */
  readonly notCopied: Map<string, number>;
  /** One for each record that is missing or different in the target. */
  readonly failures: Failure[];
  /** Receives the records of `failures`. */
  readonly rejected: NewLines | undefined;
  readonly keyFiles: string[];
}

interface Failure {
  /** A sentence that names the record. */
  readonly warning: string;
  readonly data: {
    readonly kind: 'application' | 'token';
    /** The line in the file, if the source is a file. */
    readonly line?: number;
    readonly id?: string;
    readonly name?: string;
    readonly code: Fault['code'] | 'source_incomplete';
    readonly message: string;
  };
}

export function recordFailure(
  { failures, rejected }: Report,
  kind: Failure['data']['kind'],
  { place, line, id, name, raw }: Origin,
  { code, error: message }: Fault,
): void {
  failures.push({
    warning: `${place} ${message}`,
    data: { kind, ...only({ line, id, name }), code, message },
  });
  rejected?.write(raw());
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

export function emptyReport(rejected: NewLines | undefined): Report {
  return {
    applications: { read: 0, created: 0, unchanged: 0, different: 0, skipped: 0, expired: 0 },
    tokens: noTokens(),
    notCopied: new Map(),
    failures: [],
    rejected,
    keyFiles: [],
  };
}

/** The applications that were read, but not created because the import was interrupted. */
function applicationsLeft({ read, ...done }: ApplicationCounts): number {
  return Object.values(done).reduce((left, count) => left - count, read);
}

export function countNames(totals: Map<string, number>, names: readonly string[]): void {
  for (const name of new Set(names)) totals.set(name, (totals.get(name) ?? 0) + 1);
}

/** Limits the printed failures. With --json, all are listed. */
const maxPrinted = 50;

type Totals = Readonly<Record<Kind, number | undefined>>;

interface Outcome {
  /** The numbers of records that the source reports, if it reports them. */
  readonly inSource: Totals;
  readonly isDryRun: boolean;
  readonly interrupted: Interrupted | undefined;
  /** The number of records in the file of rejected ones. */
  readonly rejected: number;
}

export function printReport(call: Call, report: Report, outcome: Outcome): number {
  const { terminal, printResult } = call;
  const failures = [...incomplete(report, outcome), ...report.failures];
  for (const { warning } of failures.slice(0, maxPrinted))
    terminal.writeError(`sallyport: warning: ${warning}\n`);
  if (failures.length > maxPrinted)
    terminal.writeError(`sallyport: warning: ${failures.length - maxPrinted} more; --json prints them\n`);
  const exitCode = outcome.interrupted?.exitCode ?? (failures.length === 0 ? 0 : 1);
  const value = reportValue({ ...report, failures }, outcome);
  return printResult(value, formatReport(report, outcome, exitCode === 0), exitCode);
}

/** The kinds of which the source counts more records than it lists. */
function incomplete(report: Report, { inSource, interrupted }: Outcome): Failure[] {
  if (interrupted) return [];
  return (['application', 'token'] as const).flatMap((kind) => {
    const all: Kind = `${kind}s`;
    const [read, total] = [report[all].read, inSource[all]];
    const message = `only ${read} of ${total} ${all} of the source could be read`;
    return read < (total ?? 0)
      ? [{ warning: message, data: { kind, code: 'source_incomplete', message } }]
      : [];
  });
}

/** The report as `--json` prints it. */
export function reportValue(
  { applications, tokens, notCopied, keyFiles, failures, rejected }: Report,
  outcome: Outcome,
): unknown {
  const { inSource, isDryRun, interrupted } = outcome;
  const { dataNotCompared, defaultContainer, ...counts } = tokens;
  return {
    complete: failures.length === 0 && !interrupted,
    dry_run: isDryRun,
    interrupted: interrupted !== undefined,
    applications: {
      ...applications,
      not_yet_created: applicationsLeft(applications),
      ...only({ in_source: inSource.applications }),
    },
    tokens: {
      ...counts,
      not_yet_copied: tokensLeft(tokens),
      data_not_compared: dataNotCompared,
      default_container: defaultContainer,
      ...only({ in_source: inSource.tokens }),
    },
    not_copied: Object.fromEntries(notCopied),
    key_files: keyFiles,
    ...(outcome.rejected > 0 && { rejected_file: rejected?.path }),
    failures: failures.map(({ data }) => data),
  };
}

function formatReport(
  { applications, tokens, notCopied, rejected: file }: Report,
  { inSource, isDryRun, interrupted, rejected }: Outcome,
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
        ['not yet created', applicationsLeft(applications)],
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
        ['not yet copied', tokensLeft(tokens)],
      ])}`,
    ],
    ['verified', `${tokens.verified} tokens are equal in source and target`],
    [
      'without data',
      notCompared > 0 ? `${notCompared} of them, because your key does not see their data` : '',
    ],
    ['no container', tokens.defaultContainer > 0 ? `${tokens.defaultContainer} tokens, as in /general/` : ''],
    ['not copied', [...notCopied].map(([name, count]) => `${name} (${count})`).join(', ')],
    [
      'rejected',
      rejected > 0 ? `${rejected} in ${file?.path}: correct them, and import them with --from-file` : '',
    ],
    [
      'result',
      interrupted
        ? 'interrupted: run the command again to continue'
        : isComplete
          ? done('complete', 'ready to import')
          : 'incomplete: see the warnings',
    ],
  ]);
}

function outOf(read: number, total: number | undefined): string {
  return total === undefined ? String(read) : `${read} of ${total}`;
}

function listed(counts: readonly (readonly [name: string, count: number])[]): string {
  const present = counts.filter(([, count]) => count > 0);
  return present.map(([name, count]) => `${count} ${name}`).join(', ') || 'none';
}
