import type { AdviceEntry, Application } from '../../../sdk/src/sallyport.ts';
import type { Call, RemoteCommand } from '../command.ts';
import { only } from '../terminal/options.ts';
import { printTable } from '../terminal/print.ts';
import { appArgument, findApplication } from './apps.ts';

export const adviseCommand: RemoteCommand = {
  usage: 'access advise',
  options: [
    { name: 'app', value: 'APP', description: 'Only this application. Default: all applications.' },
    { name: 'days', value: 'NUMBER', description: 'Keep grants that were used in this time. Default: 90.' },
    {
      name: 'yaml',
      description: 'Print the proposals as a file for `sallyport apply`. Needs application:read.',
    },
  ],
  summary: 'List unused grants, riskiest first, or propose smaller ones.',
  details: `${appArgument} A proposal covers every recorded use and allows nothing new. Uses are recorded by permission and container; a stricter transform is never proposed. Needs access:review.`,
  examples: [
    'sallyport access advise --app "web shop"',
    'sallyport access advise --days 30 --yaml > smaller.yaml',
  ],
  call: advise,
};

async function advise(call: Call): Promise<number> {
  const { options, service, print } = call;
  const [app, days] = [options.value('app'), options.value('days')];
  const application_id = app === undefined ? undefined : (await findApplication(call, app)).id;
  const query = only({ application_id, days: days as unknown as number | undefined });
  const advice: AdviceEntry[] = [];
  for await (const entry of service.access.adviceOnAll(query)) advice.push(entry);
  if (!options.on('yaml')) return printUnused(call, advice);
  const proposed: Application[] = [];
  for (const { application, proposal } of advice)
    if (proposal) proposed.push({ ...(await service.applications.get(application.id)), ...proposal });
  const { formatAccessFile } = await import('./access-file.ts');
  print(formatAccessFile(proposed, false).trimEnd());
  return 0;
}

const risks = ['management', 'reveal', 'change', 'mask', 'redact'];

function printUnused(call: Call, advice: readonly AdviceEntry[]): number {
  const unused = advice
    .flatMap(({ application, unused }) => unused.map((grant) => ({ application, ...grant })))
    .sort((a, b) => risks.indexOf(a.risk) - risks.indexOf(b.risk));
  const head = ['RISK', 'APPLICATION', 'PERMISSION', 'CONTAINER', 'TRANSFORM', 'RULE'];
  const rows = unused.map(({ risk, application, permission, container, transform, rule }) => [
    risk,
    application.name,
    permission,
    container,
    transform,
    String(rule),
  ]);
  return printTable(call, advice, 'unused grants', head, rows);
}
