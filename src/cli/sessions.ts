import type { Session, SessionAuthorize } from '../../sdk/src/sallyport.ts';
import { SessionState } from '../domain/session.ts';
import { inBrief } from './app-view.ts';
import { either, find } from './apps.ts';
import { expiryOption, fileOption, given, only, permissionOption } from './body.ts';
import type { Call, RemoteCommand } from './command.ts';
import { confirmed, yesOption } from './confirm.ts';
import { limitOption, printList } from './list.ts';
import { fields } from './table.ts';

export const sessionCommands: readonly RemoteCommand[] = [
  {
    words: ['sessions', 'create'],
    takes: [],
    summary: 'Create a Session with the key of a public Application; shows its key and nonce, this once.',
    call: create,
  },
  {
    words: ['sessions', 'authorize'],
    takes: [],
    options: [permissionOption, { ...expiryOption, sentence: 'When the Session ends.' }, fileOption],
    summary: 'Let a Session in, once, for what is named.',
    details:
      'The nonce is in the file, in SALLYPORT_NONCE, or on standard input. Rules come in the file: {"rules": [{"priority": 1, "conditions": […], …}]}.',
    call: authorize,
  },
  {
    words: ['sessions', 'list'],
    takes: [],
    options: [
      {
        name: 'state',
        takes: 'STATE',
        oneOf: SessionState.options,
        sentence: 'Only those that are waiting, or only those that are authorized.',
      },
      { name: 'app', takes: 'APP', sentence: 'Only those made with a key of this Application.' },
      { name: 'authorized-by', takes: 'APP', sentence: 'Only those that this Application authorized.' },
      limitOption,
    ],
    summary: 'List the Sessions whose key works, newest first.',
    details: either,
    call: list,
  },
  {
    words: ['sessions', 'end'],
    takes: ['ID'],
    options: [yesOption],
    summary: 'End a Session; its key is dead at once.',
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
  const named = only({
    permissions: given(options.values('permission')),
    expires_at: options.value('expires-at'),
  });
  await service.sessions.authorize({ ...file, ...named, nonce } as SessionAuthorize);
  print(json ? JSON.stringify({ authorized: true }) : 'authorized');
  return 0;
}

async function list(call: Call): Promise<number> {
  const { options, service } = call;
  const idOf = async (option: string) => {
    const wanted = options.value(option);
    return wanted === undefined ? undefined : (await find({ args: [wanted], service })).id;
  };
  const filter = only({
    state: options.value('state') as Session['state'] | undefined,
    application_id: await idOf('app'),
    authorized_by: await idOf('authorized-by'),
  });
  return printList(call, service.sessions.all(filter), {
    head: ['ID', 'STATE', 'GRANTS', 'APPLICATION', 'AUTHORIZED BY', 'EXPIRES'],
    row: (session) => [
      session.id,
      session.state,
      inBrief(session),
      session.application_id,
      session.authorized_by ?? '',
      session.expires_at,
    ],
  });
}

async function end(call: Call): Promise<number> {
  const id = call.args[0] as string;
  if (!(await confirmed(call, `End the Session ${id}? Its key dies at once.`))) return 1;
  await call.service.sessions.end(id);
  call.print(call.json ? JSON.stringify({ ended: id }) : `ended ${id}`);
  return 0;
}
