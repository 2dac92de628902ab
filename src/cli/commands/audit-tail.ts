import { z } from 'zod';
import { type LogEntry, logFilter } from '../../domain/audit.ts';
import { Id } from '../../domain/common-fields.ts';
import { check } from '../../domain/validate.ts';
import type { Maintenance } from '../../store/maintenance.ts';
import type { Invocation, LocalCommand, Option, Options } from '../command.ts';
import { UsageError } from '../errors.ts';
import { follow } from '../terminal/follow.ts';
import { inOneLine, lines, tailOptions } from '../terminal/log-line.ts';
import { withStore } from '../terminal/open-store.ts';
import { sealAll } from './audit.ts';

const Filter = z.strictObject({
  ...logFilter,
  tenant: Id.optional(),
  lines,
});
type Filter = z.infer<typeof Filter>;

const tenantOption: Option = { name: 'tenant', takes: 'ID', sentence: 'Only those of this tenant.' };

export const auditTailCommand: LocalCommand = {
  words: ['audit', 'tail'],
  takes: [],
  options: [...tailOptions, tenantOption],
  summary: 'Print the latest entries of the audit log of all tenants.',
  examples: ['sallyport audit tail --lines 100 --json'],
  details:
    'One line an entry, or one JSON object with --json. Reads the database, whether the service runs or not.',
  run: tail,
};

async function tail(invocation: Invocation): Promise<number> {
  const { options, json, print, terminal, config } = invocation;
  const { lines, ...filter } = filterOf(options);
  const show = (entries: readonly LogEntry[]) => {
    for (const entry of entries) print(json ? JSON.stringify(entry) : inOneLine(entry));
  };
  return withStore(invocation, async (maintenance) => {
    const end = await sealedUpTo(maintenance);
    show(await last(maintenance, filter, lines, end));
    const next = looks(maintenance, filter, end, show);
    if (options.on('follow')) await follow(next, terminal, { databaseUrl: config.databaseUrl });
  });
}

function filterOf(options: Options): Filter {
  const names = Object.keys(Filter.shape);
  const given = Object.fromEntries(names.map((name) => [name, options.value(name)]));
  const checked = check(Filter, given);
  if ('data' in checked) return checked.data;
  const [fault] = checked.faults;
  throw new UsageError(`--${fault?.path[0] as string} ${fault?.message}`);
}

/** The order of the chain is that in which entries came in, and it takes them all: first those that wait for it. */
async function sealedUpTo(maintenance: Maintenance): Promise<number> {
  await sealAll(maintenance);
  return (await maintenance.audit.head())?.seq ?? 0;
}

/** Goes back from `end` until `count` entries are found. */
async function last(
  maintenance: Maintenance,
  filter: Omit<Filter, 'lines'>,
  count: number,
  end: number,
): Promise<LogEntry[]> {
  let found: LogEntry[] = [];
  for (let upTo = end; upTo > 0 && found.length < count; ) {
    const before = await maintenance.audit.range(filter, { after: 0, upTo }, 'newest');
    found = [...before.entries, ...found];
    upTo = (before.end ?? 1) - 1;
  }
  return found.slice(-count);
}

/** Each call shows what has come since the one before. If one fails, the next continues where it stopped. */
function looks(
  maintenance: Maintenance,
  filter: Omit<Filter, 'lines'>,
  end: number,
  show: (entries: readonly LogEntry[]) => void,
): () => Promise<void> {
  let shown = end;
  return async () => {
    const now = await sealedUpTo(maintenance);
    while (shown < now) {
      const more = await maintenance.audit.range(filter, { after: shown, upTo: now }, 'oldest');
      show(more.entries);
      shown = more.end ?? now;
    }
  };
}
