import type { Application } from '../../../sdk/src/sallyport.ts';
import { type Call, option, type RemoteCommand } from '../command.ts';
import { ErrorAbout, UsageError } from '../errors.ts';
import { parseUrl } from '../terminal/connection.ts';
import { newLines } from '../terminal/files.ts';
import { parseSecret } from '../terminal/input.ts';
import { confirm, yesOption } from '../terminal/options.ts';
import { progressBar, showProgress } from '../terminal/print.ts';
import { stoppable } from '../terminal/signals.ts';
import type { Wanted } from './access-file.ts';
import { createApplication, keyFiles } from './apply.ts';
import { type Mapping, mapApplication, mapToken, parseMapping } from './import-mapping.ts';
import {
  countNames,
  emptyReport,
  printReport,
  type Report,
  recordFailure,
  reportValue,
} from './import-report.ts';
import {
  apiSource,
  type Fault,
  linesOf,
  linesSource,
  type Origin,
  requireReveal,
  type Source,
} from './import-source.ts';
import { batchSize, copyBatch } from './import-tokens.ts';
import { findConflicts, formatPlan, makePlan, type Plan } from './plan.ts';

export const commands: RemoteCommand = {
  usage: 'import',
  options: [
    option('from-url URL', 'URL of the source, with /applications and /tokens below it.'),
    option(
      'from-key-file FILE',
      'File with the key of the source. Without it, SALLYPORT_SOURCE_KEY is the key.',
    ),
    option('from-key-header NAME', 'Header in which the source expects its key; default SVC-API-KEY.'),
    option(
      'from-file FILE',
      'JSON lines instead of an API, one application or token per line; - for standard input.',
    ),
    option('only KIND', 'Import only these.', ['applications', 'tokens']),
    option(
      'map-container OLD=NEW...',
      'Replace a container and those below it, in tokens and rules; repeatable.',
    ),
    option('map-permission OLD=NEW...', 'Replace a permission; an empty NEW drops it; repeatable.'),
    option('first-container', 'Put a token that is in several containers into the first one.'),
    option('management', 'Also import management applications.'),
    option('replace', 'Delete and create again tokens that differ from the source.'),
    option('keys-dir DIR', 'Folder for the keys of new applications.'),
    option(
      'rejected FILE',
      'Write the records that were not copied to this new file, as JSON lines for --from-file.',
    ),
    option('skip-reveal-check', 'Do not check that the source key reveals all tokens.'),
    option('dry-run', 'Read, convert and compare everything, and change nothing.'),
    yesOption,
  ],
  summary: 'Copy applications, rules and tokens from another vault.',
  details:
    'Applications are matched by name and get new keys; tokens have the same ids as before. Run it again after an interruption or for new tokens: it skips what is there already, and reports what differs. Every copied token is read back and compared. Exits with 1 if something was not copied.\n\nAfter Ctrl-C, it waits for the requests in progress and prints what was done. With --json, `failures` lists each record that was not copied, with its line in the file, its id, a code and a message.',
  examples: [
    'sallyport import --from-url https://vault.example --from-key-file old.key --dry-run',
    'sallyport import --from-file export.jsonl --map-container /pci/=/cards/ --keys-dir keys --yes',
    'sallyport import --from-file export.jsonl --rejected rejected.jsonl --keys-dir keys --yes --json',
  ],
  call: runImport,
};

async function runImport(call: Call): Promise<number> {
  const path = call.options.value('rejected');
  const report = emptyReport(path === undefined ? undefined : newLines(path));
  try {
    return await copyAll(call, report);
  } finally {
    report.rejected?.close();
  }
}

async function copyAll(call: Call, report: Report): Promise<number> {
  const { options, terminal } = call;
  const source = await openSource(call);
  const mapping = parseMapping(
    options.values('map-permission'),
    options.values('map-container'),
    options.on('first-container'),
  );
  const only = options.value('only');
  const isDryRun = options.on('dry-run');
  const plan = only === 'tokens' ? undefined : await planApplications(call, source, mapping, report);
  const total = only === 'applications' ? 0 : await source.total('tokens');
  if (plan && plan.create.length > 0 && !call.json) call.print(formatPlan(plan, call.colorize));
  if (plan && plan.create.length > 0 && options.value('keys-dir') === undefined && !isDryRun)
    throw new UsageError('new applications need --keys-dir, a folder for their keys');
  if (!isDryRun) {
    const tokens = total === 0 ? '' : ` and copy ${total ?? 'all'} tokens`;
    await confirm(call, `Create ${plan?.create.length ?? 0} applications${tokens}?`);
  }
  const interrupted = await stoppable(
    async (stop) => {
      if (plan && !isDryRun) await createApplications(call, plan, report, stop);
      if (only !== 'applications') await importTokens(call, source, mapping, total, report, stop);
    },
    () => terminal.writeError('sallyport: warning: interrupted; waiting for the requests in progress\n'),
  );
  const inSource = {
    applications: only === 'tokens' || interrupted ? undefined : await source.total('applications'),
    tokens: only === 'applications' ? undefined : interrupted ? total : await source.total('tokens'),
  };
  const rejected = report.rejected?.close() ?? 0;
  return printReport(call, report, { inSource, isDryRun, interrupted, rejected });
}

async function openSource({ options, terminal, input }: Call): Promise<Source> {
  const [url, file] = [options.value('from-url'), options.value('from-file')];
  if ((url === undefined) === (file === undefined))
    throw new UsageError('pass either --from-url or --from-file');
  if (file !== undefined)
    return linesSource(
      linesOf(file, () => input.standard('--from-file -')),
      options.value('only') === 'applications' ? 'applications' : 'tokens',
    );
  const keyFile = options.value('from-key-file');
  const key =
    keyFile === undefined
      ? parseSecret(terminal.env.SALLYPORT_SOURCE_KEY ?? '', 'SALLYPORT_SOURCE_KEY')
      : parseSecret(await input.text(keyFile, '--from-key-file'), `--from-key-file ${keyFile}`);
  const keyHeader = options.value('from-key-header') ?? 'SVC-API-KEY';
  if (!/^[\w-]+$/.test(keyHeader)) throw new UsageError('--from-key-header must be the name of a header');
  const api = { url: parseUrl(url as string, '--from-url'), key, keyHeader };
  if (options.value('only') !== 'applications' && !options.on('skip-reveal-check')) await requireReveal(api);
  return apiSource(api);
}

/** Reads and converts all applications before the first change. Throws UsageError if one cannot be converted. */
async function planApplications(
  { service, options, terminal, json, print }: Call,
  source: Source,
  mapping: Mapping,
  report: Report,
): Promise<Plan> {
  const { applications: counts, notCopied } = report;
  const progress = showProgress(terminal);
  const wanted: Wanted[] = [];
  /** By name. */
  const origins = new Map<string, Origin>();
  const fail = (origin: Origin, fault: Fault) => recordFailure(report, 'application', origin, fault);
  for await (const item of source.read('applications')) {
    progress.update(`${++counts.read} applications read`);
    if ('record' in item && item.record.type === 'management' && !options.on('management')) {
      counts.skipped++;
      continue;
    }
    const mapped = mapApplication(item, mapping);
    if ('error' in mapped) {
      fail(mapped, mapped);
      continue;
    }
    const { application } = mapped;
    if (application.expires_at !== undefined && application.expires_at <= Date.now()) {
      counts.expired++;
      continue;
    }
    if (origins.has(application.name))
      fail(mapped, { code: 'name_repeated', error: 'has the same name as another one in the source' });
    origins.set(application.name, mapped);
    wanted.push({
      application: { ...application, previous_name: undefined },
      file: 'the source',
      line: wanted.length,
    });
    countNames(notCopied, mapped.notCopied);
    countNames(
      notCopied,
      mapped.dropped.map((name) => `permission ${name}`),
    );
  }
  const current: Application[] = [];
  for await (const application of service.applications.all()) current.push(application);
  progress.clear();
  const failAbout = (name: string, fault: Fault) => fail(origins.get(name) as Origin, fault);
  for (const { line, message } of findConflicts(wanted, current, Date.now())) {
    const name = wanted[line]?.application.name as string;
    failAbout(name, { code: 'conflict', error: message.replace(`"${name}" `, '') });
  }
  if (report.failures.length > 0) {
    const inSource = { applications: undefined, tokens: undefined };
    const rejected = report.rejected?.close() ?? 0;
    const outcome = { inSource, isDryRun: options.on('dry-run'), interrupted: undefined, rejected };
    if (json) print(JSON.stringify(reportValue(report, outcome)));
    throw new UsageError(
      report.failures.map(({ warning }) => warning).join('\n'),
      'no change was made; use --map-permission and --map-container, correct the source, or pass --only tokens',
    );
  }
  const plan = makePlan(wanted, current, { selectors: undefined, prune: false }, '');
  counts.unchanged = plan.unchanged;
  counts.different = plan.update.length;
  if (options.on('dry-run')) counts.created = plan.create.length;
  for (const { current, add, remove } of plan.update)
    failAbout(current.name, {
      code: 'different',
      error: `exists with other grants: ${[...remove, ...add].join('; ')}`,
    });
  return { ...plan, update: [], unmanaged: [] };
}

async function createApplications(call: Call, plan: Plan, report: Report, stop: AbortSignal): Promise<void> {
  const files = keyFiles(plan, call.options.value('keys-dir'));
  for (const application of plan.create) {
    stop.throwIfAborted();
    const file = files.get(application.name);
    try {
      await createApplication(call, application, file);
    } catch (error) {
      throw new ErrorAbout(`application "${application.name}"`, error);
    }
    report.applications.created++;
    if (file !== undefined) report.keyFiles.push(file);
  }
}

async function importTokens(
  { service, options, terminal }: Call,
  source: Source,
  mapping: Mapping,
  total: number | undefined,
  report: Report,
  stop: AbortSignal,
): Promise<void> {
  const { tokens: counts, notCopied } = report;
  const progress = showProgress(terminal);
  const reportFailure = (origin: Origin, fault: Fault) => recordFailure(report, 'token', origin, fault);
  const copyOptions = { dryRun: options.on('dry-run'), replace: options.on('replace'), reportFailure, stop };
  const now = Date.now();
  let batch: Parameters<typeof copyBatch>[1][number][] = [];
  const copy = async () => {
    await copyBatch(service, batch, counts, copyOptions);
    batch = [];
    progress.update(progressBar('tokens', counts.read, total));
  };
  try {
    for await (const item of source.read('tokens', stop)) {
      counts.read++;
      const mapped = mapToken(item, mapping, now);
      if ('expired' in mapped) counts.expired++;
      else if ('error' in mapped) {
        counts.failed++;
        reportFailure(mapped, mapped);
      } else {
        countNames(notCopied, mapped.notCopied);
        if (mapped.hasDefaultContainer) counts.defaultContainer++;
        batch.push(mapped);
      }
      if (batch.length === batchSize) await copy();
    }
    await copy();
  } finally {
    progress.clear();
  }
}
