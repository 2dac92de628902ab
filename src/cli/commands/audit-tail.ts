import { z } from 'zod';
import { type LogEntry, logFilter } from '../../domain/audit.ts';
import { Id } from '../../domain/common-fields.ts';
import { check } from '../../domain/validate.ts';
import type { Maintenance } from '../../store/maintenance.ts';
import type { Invocation, LocalCommand, Option, Options } from '../command.ts';
import { UsageError } from '../errors.ts';
import { formatEntry, lines, tailOptions } from '../terminal/audit-line.ts';
import { follow } from '../terminal/follow.ts';
import { withStore } from '../terminal/open-store.ts';
import { chainAll } from './audit.ts';

const Filter = z.strictObject({
  ...logFilter,
  tenant: Id.optional(),
  lines,
});
type Filter = z.infer<typeof Filter>;

const tenantOption: Option = { name: 'tenant', value: 'ID', description: 'Filter by tenant.' };

export const auditTailCommand: LocalCommand = {
  words: ['audit', 'tail'],
  args: [],
  options: [...tailOptions, tenantOption],
  summary: 'Print the latest entries of the audit log of all tenants.',
  examples: ['sallyport audit tail --lines 100 --json'],
  details:
    'Prints one line per entry, or one JSON object per line with --json. Reads the database directly, whether the service runs or not.',
  run: tail,
};

async function tail(invocation: Invocation): Promise<number> {
  const { options, json, print, terminal, config } = invocation;
  const { lines, ...filter } = filterOf(options);
  const show = (entries: readonly LogEntry[]) => {
    for (const entry of entries) print(json ? JSON.stringify(entry) : formatEntry(entry));
  };
  return withStore(invocation, async (maintenance) => {
    const end = await chainAndGetEnd(maintenance);
    show(await last(maintenance, filter, lines, end));
    const poll = pollAfter(maintenance, filter, end, show);
    if (options.on('follow')) await follow(poll, terminal, { databaseUrl: config.databaseUrl });
  });
}

function filterOf(options: Options): Filter {
  const names = Object.keys(Filter.shape);
  const values = Object.fromEntries(names.map((name) => [name, options.value(name)]));
  const checked = check(Filter, values);
  if ('data' in checked) return checked.data;
  const [fault] = checked.faults;
  throw new UsageError(`--${fault?.path[0] as string} ${fault?.message}`);
}

/** Chains all entries, so that the chain has every entry in order of arrival. Returns the number of the last one. */
async function chainAndGetEnd(maintenance: Maintenance): Promise<number> {
  await chainAll(maintenance);
  return (await maintenance.audit.head())?.seq ?? 0;
}

/** Reads backwards from `end` until `count` entries match. */
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

/** Each call shows the entries since the previous one. If a call fails, the next continues where it stopped. */
function pollAfter(
  maintenance: Maintenance,
  filter: Omit<Filter, 'lines'>,
  end: number,
  show: (entries: readonly LogEntry[]) => void,
): () => Promise<void> {
  let last = end;
  return async () => {
    const now = await chainAndGetEnd(maintenance);
    while (last < now) {
      const more = await maintenance.audit.range(filter, { after: last, upTo: now }, 'oldest');
      show(more.entries);
      last = more.end ?? now;
    }
  };
}
