import type { AccessEntry, AccessReview } from '../../../sdk/src/sallyport.ts';
import type { Call, RemoteCommand } from '../command.ts';
import { UsageError } from '../errors.ts';
import { only } from '../terminal/options.ts';
import { limitOption, printList } from '../terminal/print.ts';

export const accessCommands: readonly RemoteCommand[] = [
  {
    usage: 'access who',
    options: [
      { name: 'container', value: 'PATH', description: 'Container to review, such as /customers/42/.' },
      { name: 'token', value: 'ID', description: 'Token to review, instead of a container.' },
      { name: 'permission', value: 'PERMISSION', description: 'Permission to review. Default: token:read.' },
      limitOption,
    ],
    summary: 'List who has access to a container or token, riskiest first.',
    details:
      'Lists applications and active sessions with their transform (reveal, mask or redact), the rule that decides, and the last use of the permission there. Needs access:review. The number of entries by transform is printed to standard error.',
    examples: [
      'sallyport access who --container /customers/42/',
      'sallyport access who --token card-42 --permission token:delete',
    ],
    call: who,
  },
];

async function who(call: Call): Promise<number> {
  const { options, service, terminal } = call;
  const [container, token] = [options.value('container'), options.value('token')];
  if ((container === undefined) === (token === undefined))
    throw new UsageError('nothing to review', 'pass either --container or --token');
  const query = only({ container, token, permission: options.value('permission') });
  const first = await service.access.who({ ...query, size: 100 });
  const exitCode = await printList(call, entriesFrom(first, query, call), {
    noun: 'applications or sessions with access',
    head: ['TRANSFORM', 'TYPE', 'NAME', 'ID', 'RULE', 'LIMITED BY', 'LAST USED'],
    row: (entry) => [
      entry.transform,
      entry.subject.type,
      entry.subject.name,
      entry.subject.id,
      ruleOf(entry),
      limitsOf(entry),
      entry.last_used_at ?? '',
    ],
  });
  if (first.totals) terminal.writeError(`${totalsText(first.totals)}\n`);
  return exitCode;
}

/** The first page is read separately: only it has totals. */
async function* entriesFrom(
  { data, pagination }: AccessReview,
  query: Record<string, string>,
  { service }: Call,
): AsyncGenerator<AccessEntry> {
  yield* data;
  if (pagination.next) yield* service.access.everyone({ ...query, start: pagination.next });
}

function ruleOf({ rule }: AccessEntry): string {
  const name = rule.rule === 'permissions' ? 'permissions' : `rule ${rule.rule}`;
  return rule.of === 'authorizer' ? `${name} of the authorizer` : name;
}

function limitsOf({ limited_by, quarantine }: AccessEntry): string {
  const limits = [limited_by?.name, quarantine && `quarantine of the ${quarantine.type}`];
  return limits.filter((limit) => limit !== undefined).join(', ');
}

function totalsText({ reveal, mask, redact }: NonNullable<AccessReview['totals']>): string {
  return `${reveal} reveal, ${mask} mask, ${redact} redact`;
}
