import { parseDuration } from '../../domain/duration.ts';
import { type Invocation, type LocalCommand, option } from '../command.ts';
import { UsageError } from '../errors.ts';
import { withStore } from '../terminal/database.ts';
import { printTable } from '../terminal/print.ts';

const defaultPeriod = '7d';
const maxListed = 1000;

export const commands: LocalCommand = {
  usage: 'expiring',
  options: [
    option('within DURATION', `Time until the expiry, such as 30d or 24h. Default: ${defaultPeriod}.`),
  ],
  summary: 'List the applications and keys of all tenants that expire soon.',
  details: `The next one comes first, and at most ${maxListed} are listed. If an application expires, KEY is \`all\`: its keys expire with it.`,
  examples: ['sallyport expiring', 'sallyport expiring --within 30d --json'],
  run: list,
};

function list(invocation: Invocation): Promise<number> {
  const period = invocation.options.value('within') ?? defaultPeriod;
  const within = parseDuration(period);
  if (within === undefined)
    throw new UsageError(`--within must be a duration such as 30d or 24h, not "${period}"`);
  return withStore(invocation, async (maintenance) => {
    const found = await maintenance.expiring(within, maxListed);
    const rows = found.map((one) => [
      one.expires_at,
      one.tenant,
      one.application,
      one.application_id,
      one.key === undefined ? 'all' : `…${one.key.ending}`,
    ]);
    const head = ['EXPIRES', 'TENANT', 'APPLICATION', 'APPLICATION ID', 'KEY'];
    return printTable(invocation, found, 'applications or keys', head, rows);
  });
}
