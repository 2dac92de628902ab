import type { Session, SessionAuthorize } from '../../../sdk/src/sallyport.ts';
import { SessionState } from '../../domain/session.ts';
import type { Call, RemoteCommand } from '../command.ts';
import { expiryOption, fileOption, nonEmpty, only, permissionOption } from '../terminal/body-options.ts';
import { confirm, yesOption } from '../terminal/confirm.ts';
import { limitOption, printList } from '../terminal/list.ts';
import { fields } from '../terminal/table.ts';
import { appArgument, findApplication } from './apps.ts';
import { summarizeGrants } from './format-app.ts';

export const sessionCommands: readonly RemoteCommand[] = [
  {
    words: ['sessions', 'create'],
    args: [],
    summary: 'Create a session and print its key and nonce.',
    details: 'Needs the key of a public application. The session key and nonce are shown only once.',
    examples: ['sallyport sessions create --key-file web.key'],
    call: create,
  },
  {
    words: ['sessions', 'authorize'],
    args: [],
    options: [
      permissionOption,
      { ...expiryOption, description: 'Expiry of the session, such as 2030-01-31T12:00:00Z.' },
      fileOption,
    ],
    summary: 'Authorize a session with its nonce.',
    details:
      'The nonce comes from --file, SALLYPORT_NONCE or standard input, and works once. Pass access rules with --file.',
    examples: ['SALLYPORT_NONCE=… sallyport sessions authorize --permission token:read'],
    call: authorize,
  },
  {
    words: ['sessions', 'list'],
    args: [],
    options: [
      {
        name: 'state',
        value: 'STATE',
        choices: SessionState.options,
        description: 'Filter by state.',
      },
      { name: 'app', value: 'APP', description: 'Filter by the application that created the session.' },
      {
        name: 'authorized-by',
        value: 'APP',
        description: 'Filter by the application that authorized the session.',
      },
      limitOption,
    ],
    summary: 'List sessions that have not expired, newest first.',
    details: appArgument,
    examples: ['sallyport sessions list --state active --app "web shop"'],
    call: list,
  },
  {
    words: ['sessions', 'end'],
    args: ['ID'],
    options: [yesOption],
    summary: 'End a session.',
    details: 'Its key is revoked immediately.',
    examples: ['sallyport sessions end 0198c0de-0000-7000-8000-000000000000'],
    call: end,
  },
];

async function create({ service, json, print }: Call): Promise<number> {
  const session = await service.sessions.create();
  print(
    json
      ? JSON.stringify(session)
      : fields([
          ['session_key', session.session_key],
          ['nonce', session.nonce],
          ['expires_at', session.expires_at],
        ]),
  );
  return 0;
}

async function authorize({ service, options, input, json, print }: Call): Promise<number> {
  const file = await input.body(options.value('file'));
  const nonce = file.nonce ?? (await input.secret('SALLYPORT_NONCE', 'nonce'));
  const fromOptions = only({
    permissions: nonEmpty(options.values('permission')),
    expires_at: options.value('expires-at'),
  });
  await service.sessions.authorize({ ...file, ...fromOptions, nonce } as SessionAuthorize);
  print(json ? JSON.stringify({ authorized: true }) : 'authorized');
  return 0;
}

async function list(call: Call): Promise<number> {
  const { options, service } = call;
  const idOf = async (option: string) => {
    const wanted = options.value(option);
    return wanted === undefined ? undefined : (await findApplication({ args: [wanted], service })).id;
  };
  const filter = only({
    state: options.value('state') as Session['state'] | undefined,
    application_id: await idOf('app'),
    authorized_by: await idOf('authorized-by'),
  });
  return printList(call, service.sessions.all(filter), {
    noun: 'active sessions',
    head: ['ID', 'STATE', 'GRANTS', 'APPLICATION', 'AUTHORIZED BY', 'EXPIRES'],
    row: (session) => [
      session.id,
      session.state,
      summarizeGrants(session),
      session.application_id,
      session.authorized_by ?? '',
      session.expires_at,
    ],
  });
}

async function end(call: Call): Promise<number> {
  const id = call.args[0] as string;
  if (!(await confirm(call, `End session ${id}? Its key is revoked immediately.`))) return 1;
  await call.service.sessions.end(id);
  call.print(call.json ? JSON.stringify({ ended: id }) : `ended ${id}`);
  return 0;
}
