import type { Call, RemoteCommand } from '../command.ts';
import { printTable } from '../terminal/list.ts';
import { appArgument, findApplication } from './apps.ts';

export const usageCommands: readonly RemoteCommand[] = [
  {
    words: ['apps', 'usage'],
    args: ['APP'],
    summary: 'Show which grants an application uses and which it never used.',
    details: appArgument,
    examples: ['sallyport apps usage backend'],
    call: show,
  },
];

async function show(call: Call): Promise<number> {
  const usage = await call.service.applications.usage((await findApplication(call)).id);
  if (call.json) {
    call.print(JSON.stringify(usage));
    return 0;
  }
  const used = usage.uses.map((use) => [use.permission, use.container, use.last_used_at, '']);
  const unused = usage.unused.map(({ permission, container, rule }) => [
    permission,
    container,
    'never',
    rule === 'permissions' ? 'permissions' : `rule ${rule}`,
  ]);
  const rows = [...used, ...unused];
  printTable(call, 'grants', ['PERMISSION', 'CONTAINER', 'LAST USED', 'GRANTED BY'], rows);
  return 0;
}
