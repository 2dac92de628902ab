import { z } from 'zod';
import { type LogEntry, logFilter } from '../../domain/audit.ts';
import { Id } from '../../domain/common-fields.ts';
import { check } from '../../domain/validate.ts';
import { type Command, type Invocation, type Options, option } from '../command.ts';
import { UsageError } from '../errors.ts';
import { withStore } from '../terminal/database.ts';
import { filterValue, follow, lines, noSuchOperation, printEntries, tailOptions } from '../terminal/tail.ts';

export const commands: readonly Command[] = [
  {
    usage: 'audit tail',
    options: [...tailOptions, option('tenant ID', 'Filter by the id of a tenant.')],
    summary: 'Print the latest entries of the audit log of all tenants.',
    examples: ['sallyport audit tail --lines 100 --json'],
    details:
      'Prints one line per entry, or one JSON object per line with --json. Reads the database directly, whether the service runs or not.',
    run: tail,
  },
];

const Filter = z.strictObject({
  ...logFilter,
  tenant: Id.optional(),
  lines,
});
type Filter = z.infer<typeof Filter>;

async function tail(invocation: Invocation): Promise<number> {
  const { options, terminal, config } = invocation;
  const { lines, tenant, ...filter } = filterOf(options);
  const show = (entries: readonly LogEntry[]) => printEntries(invocation, entries);
  return withStore(invocation, async ({ audit }) => {
    const tailing = audit.tail(filter, tenant);
    const last = await tailing.last(lines);
    show(last);
    const { operation } = filter;
    if (last.length === 0 && operation && (await audit.tail({ operation }).last(1)).length === 0)
      terminal.writeError(`sallyport: hint: ${noSuchOperation(operation)}\n`);
    const poll = async () => {
      for await (const entries of tailing.more()) show(entries);
    };
    if (options.on('follow')) await follow(poll, terminal, { databaseUrl: config.databaseUrl });
    return 0;
  });
}

function filterOf(options: Options): Filter {
  const names = Object.keys(Filter.shape);
  const values = Object.fromEntries(names.map((name) => [name, filterValue(options, optionName(name))]));
  const checked = check(Filter, values);
  if ('data' in checked) return checked.data;
  const [fault] = checked.faults;
  throw new UsageError(`--${optionName(fault?.path[0] as string)} ${fault?.message}`);
}

function optionName(field: string): string {
  return field.replace('_', '-');
}
