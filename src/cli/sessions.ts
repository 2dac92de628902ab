import type { SessionAuthorize } from '../../sdk/src/sallyport.ts';
import { expiryOption, fileOption, given, only, permissionOption } from './body.ts';
import type { Call, RemoteCommand } from './command.ts';
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
