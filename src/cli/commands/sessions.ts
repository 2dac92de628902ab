import type { DelegationCreate, Session, SessionAuthorize } from '../../../sdk/src/sallyport.ts';
import { SessionKind, SessionState } from '../../domain/session.ts';
import { type Call, option, type RemoteCommand } from '../command.ts';
import { UsageError } from '../errors.ts';
import {
  confirm,
  expiryOption,
  fileOption,
  only,
  permissionOption,
  wholeNumberOf,
  yesOption,
} from '../terminal/options.ts';
import { fields, limitOption, printList } from '../terminal/print.ts';
import { ApplicationNames } from './application-names.ts';
import { appArgument, findApplication, summarizeGrants } from './apps.ts';

export const commands: readonly RemoteCommand[] = [
  {
    usage: 'sessions create',
    summary: 'Create a session and print its key and nonce.',
    details: 'Needs the key of a public application. The session key and nonce are shown only once.',
    examples: ['sallyport sessions create --key-file web.key'],
    call: create,
  },
  {
    usage: 'sessions authorize',
    options: [
      permissionOption,
      option('subject SUBJECT', 'Subject of the session, such as user:42.'),
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
    usage: 'delegations create',
    options: [
      permissionOption,
      option('subject SUBJECT', 'Subject of the delegation, such as user:42.'),
      { ...expiryOption, description: 'Expiry of the delegation, such as 2030-01-31T12:00:00Z.' },
      option('max-uses NUMBER', 'How many requests can succeed. Unlimited by default.'),
      fileOption,
    ],
    summary: 'Create a delegation for a job or an agent and print its key.',
    details:
      'Needs the key of a private application, which limits the delegation. The key is shown only once. Pass access rules with --file. `sessions list` and `sessions end` list and end delegations, too.',
    examples: ['sallyport delegations create --file grant.json --subject user:42 --max-uses 20'],
    call: delegate,
  },
  {
    usage: 'sessions list',
    options: [
      option('kind KIND', 'Filter by kind.', SessionKind.options),
      option('state STATE', 'Filter by state.', SessionState.options),
      option('subject SUBJECT', 'Filter by who the session is for.'),
      option('app APP', 'Filter by the application that created the session.'),
      option('authorized-by APP', 'Filter by the application that authorized the session.'),
      option('container CONTAINER', 'Only sessions with a grant that applies in this container or below it.'),
      limitOption,
    ],
    summary: 'List sessions and delegations that have not expired, newest first.',
    details: `${appArgument} The table has the names of applications, or ids if your key lacks application:read; --json has ids.`,
    examples: ['sallyport sessions list --state active --app "web shop"'],
    call: list,
  },
  {
    usage: 'sessions end [ID]',
    options: [option('subject SUBJECT', 'End all sessions of this subject instead.'), yesOption],
    summary: 'End a session, or all sessions of a subject.',
    details: 'The keys are revoked immediately.',
    examples: [
      'sallyport sessions end 0198c0de-0000-7000-8000-000000000000',
      'sallyport sessions end --subject user:42',
    ],
    call: end,
  },
];

async function create({ service, printResult }: Call): Promise<number> {
  const session = await service.sessions.create();
  const { session_key, nonce, expires_at } = session;
  return printResult(session, fields(Object.entries({ session_key, nonce, expires_at })));
}

async function authorize({ service, options, input, printResult }: Call): Promise<number> {
  const file = await input.body(options.value('file'));
  const nonce = file.nonce ?? (await input.secret('SALLYPORT_NONCE', 'nonce'));
  const fromOptions = only({
    permissions: options.values('permission'),
    subject: options.value('subject'),
    expires_at: options.value('expires-at'),
  });
  const body = { ...file, ...fromOptions, nonce } as SessionAuthorize;
  const { id, expiresAt } = await service.sessions.authorize(body);
  return printResult({ authorized: true, id, expires_at: expiresAt }, `authorized ${id} until ${expiresAt}`);
}

async function delegate({ service, options, input, printResult }: Call): Promise<number> {
  const fromOptions = only({
    permissions: options.values('permission'),
    subject: options.value('subject'),
    expires_at: options.value('expires-at'),
    max_uses: wholeNumberOf({ options }, 'max-uses'),
  });
  const body = { ...(await input.body(options.value('file'))), ...fromOptions } as DelegationCreate;
  const { id, key, expires_at } = await service.delegations.create(body);
  return printResult({ id, key, expires_at }, fields(Object.entries({ id, key, expires_at })));
}

async function list(call: Call): Promise<number> {
  const { options, service } = call;
  const idOf = async (option: string) => {
    const wanted = options.value(option);
    return wanted === undefined ? undefined : (await findApplication(call, wanted)).id;
  };
  const filter = only({
    kind: options.value('kind') as Session['kind'] | undefined,
    state: options.value('state') as Session['state'] | undefined,
    subject: options.value('subject'),
    application_id: await idOf('app'),
    authorized_by: await idOf('authorized-by'),
    container: options.value('container'),
  });
  const names = new ApplicationNames(call);
  return printList(call, service.sessions.all(filter), {
    noun: 'active sessions',
    head: ['ID', 'KIND', 'STATE', 'SUBJECT', 'GRANTS', 'BOUND', 'APPLICATION', 'AUTHORIZED BY', 'EXPIRES'],
    load: (sessions) =>
      names.load(sessions.flatMap(({ application_id, authorized_by }) => [application_id, authorized_by])),
    row: (session) => [
      session.id,
      session.kind,
      session.quarantined_at === undefined ? session.state : `${session.state}, in quarantine`,
      session.subject ?? '',
      summarizeGrants(session),
      session.bound ? 'yes' : 'no',
      names.of(session.application_id),
      names.of(session.authorized_by),
      session.expires_at,
    ],
  });
}

async function end(call: Call): Promise<number> {
  const [id] = call.args;
  const subject = call.options.value('subject');
  if (subject !== undefined && id === undefined) {
    await confirm(call, `End all sessions of ${subject}? Their keys are revoked immediately.`);
    await call.service.sessions.endAll({ subject });
    return call.printResult({ ended: { subject } }, `ended all sessions of ${subject}`);
  }
  if (id === undefined || subject !== undefined) throw new UsageError('pass either ID or --subject');
  await confirm(call, `End session ${id}? Its key is revoked immediately.`);
  await call.service.sessions.end(id);
  return call.printResult({ ended: id }, `ended ${id}`);
}
