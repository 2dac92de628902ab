import type { Call, RemoteCommand } from '../command.ts';
import { confirm, yesOption } from '../terminal/options.ts';
import { appArgument, findApplication, show, titleOf } from './apps.ts';

export const commands: readonly RemoteCommand[] = [
  {
    usage: 'apps quarantine <APP>',
    options: [yesOption],
    summary: 'Put an application into quarantine.',
    details: `Keys of the application and of the sessions that it created or authorized stay valid, but cannot make changes or read token data until you release it. ${appArgument}`,
    examples: ['sallyport apps quarantine backend'],
    call: quarantine,
  },
  {
    usage: 'apps release <APP>',
    summary: 'Release an application from quarantine.',
    details: appArgument,
    examples: ['sallyport apps release backend'],
    call: release,
  },
  {
    usage: 'sessions quarantine <ID>',
    options: [yesOption],
    summary: 'Put a session into quarantine.',
    details:
      'Its key stays valid, but cannot make changes or read token data until you release it. Needs session:delete.',
    examples: ['sallyport sessions quarantine 0198c0de-0000-7000-8000-000000000000'],
    call: quarantineSession,
  },
  {
    usage: 'sessions release <ID>',
    summary: 'Release a session from quarantine.',
    examples: ['sallyport sessions release 0198c0de-0000-7000-8000-000000000000'],
    call: releaseSession,
  },
];

async function quarantineSession(call: Call): Promise<number> {
  const id = call.args[0] as string;
  await confirm(
    call,
    `Put session ${id} into quarantine? It can then change nothing and read no token data.`,
  );
  const session = await call.service.sessions.quarantine(id);
  return call.printResult(session, `session ${id} is in quarantine since ${session.quarantined_at}`);
}

async function releaseSession(call: Call): Promise<number> {
  const id = call.args[0] as string;
  await call.service.sessions.release(id);
  return call.printResult({ released: id }, `released ${id}`);
}

async function quarantine(call: Call): Promise<number> {
  const app = await findApplication(call, call.args[0] as string);
  await confirm(
    call,
    `Put ${titleOf(app)} into quarantine? It can then change nothing and read no token data.`,
  );
  return show(call, await call.service.applications.quarantine(app.id));
}

async function release(call: Call): Promise<number> {
  const app = await findApplication(call, call.args[0] as string);
  await call.service.applications.release(app.id);
  return call.printResult({ released: app.id }, `released ${app.id}`);
}
