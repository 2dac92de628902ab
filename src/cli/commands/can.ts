import { type Decision, type DecisionStep, ProblemError } from '../../../sdk/src/sallyport.ts';
import { escapeText } from '../../domain/escape.ts';
import { explain, trace } from '../../domain/explain.ts';
import { Permission } from '../../domain/permission.ts';
import { compilePolicy, forPurpose, type Resource } from '../../domain/policy.ts';
import { quarantined } from '../../domain/quarantine.ts';
import { Container, canonicalContainer, type Rule } from '../../domain/rule.ts';
import { type Call, option, type RemoteCommand } from '../command.ts';
import { negativeExitCode, UsageError } from '../errors.ts';
import { only } from '../terminal/options.ts';
import { columnWidths, inColumns } from '../terminal/print.ts';
import type { Colorize } from '../terminal/terminal.ts';
import { appArgument, findApplication } from './apps.ts';
import { destinationId } from './destinations.ts';

export const commands: RemoteCommand = {
  usage: 'can <PERMISSION>',
  options: [
    option('app APP', 'Check this application instead of a key. Needs application:read.'),
    option('id ID', 'Id of the resource.'),
    option('container PATH', 'Container of the resource, such as /customers/42/.'),
    option('destination DESTINATION', 'For token:use: name or id of the destination.'),
    option('purpose TEXT', 'The purpose that the request states.'),
  ],
  summary: 'Check whether a key or an application has a permission, and explain why.',
  examples: [
    'sallyport can token:read --app "web shop" --container /customers/42/',
    'SALLYPORT_CREDENTIAL=… sallyport can token:read --container /customers/42/',
  ],
  details: `With --app, the command reads the grants of the application and evaluates them itself, with the same code as the service. It looks up whether the token with --id has max_uses, if your key can read it. ${appArgument} Without --app, the service decides about the key in SALLYPORT_CREDENTIAL or on standard input, and your own key needs decision:create. Exits with 0 if allowed, with ${negativeExitCode} if denied.`,
  call: can,
};

async function can(call: Call): Promise<number> {
  const { args, options, colorize, printResult } = call;
  const permission = args[0] as string;
  const [id, container, destination] = ['id', 'container', 'destination'].map((name) => options.value(name));
  const resource = only({ id, container, destination });
  const app = options.value('app');
  const decision =
    app === undefined
      ? await decideForKey(call, permission, resource)
      : await decideForApplication(call, app, permission, resource);
  const exitCode = decision.allowed ? 0 : negativeExitCode;
  return printResult(decision, formatDecision(decision, permission, colorize), exitCode);
}

async function decideForKey({ input, options, service }: Call, permission: string, resource: Resource) {
  const credential = await input.secret('SALLYPORT_CREDENTIAL', 'credential');
  const purpose = options.value('purpose');
  const question = { credential, permission, resource: only(resource), explain: true };
  return service.decide({ ...question, ...(purpose !== undefined && { purpose }) });
}

async function decideForApplication(
  call: Call,
  app: string,
  permission: string,
  { id, container, destination }: Resource,
): Promise<Decision> {
  const valid = parse(Permission, 'PERMISSION', permission);
  const resource = {
    ...(id !== undefined && { id }),
    ...(container !== undefined && { container: parse(Container, '--container', container) }),
    ...(destination !== undefined && { destination: await destinationId(call, destination) }),
  };
  const application = await findApplication(call, app);
  const { permissions } = application;
  const grants = { permissions, rules: application.rules as Rule[] };
  const policy = compilePolicy(application.quarantined_at === undefined ? grants : quarantined(grants));
  const question = forPurpose({ holder: 'application' as const, policy }, call.options.value('purpose'));
  const mayBeHidden =
    explain(question, valid, resource).transform === 'reveal' && /^token:(read|update)$/.test(valid);
  const max_uses = mayBeHidden ? await maxUses(call, resource) : undefined;
  return {
    principal: { kind: 'application', id: application.id, application_id: application.id },
    ...explain(question, valid, { ...resource, max_uses }),
    trace: trace(question, valid, resource),
  };
}

/** Undefined if the key of the command cannot read the token, and if it is in another container. */
async function maxUses({ service }: Call, { id, container }: Resource): Promise<number | undefined> {
  if (id === undefined) return undefined;
  try {
    const token = await service.tokens.get(id, { transform: 'redact' });
    const own = canonicalContainer(token.container);
    return canonicalContainer(container ?? own) === own ? token.max_uses : undefined;
  } catch (error) {
    if (error instanceof ProblemError && [400, 403, 404].includes(error.status)) return undefined;
    throw error;
  }
}

function parse(schema: typeof Permission | typeof Container, name: string, text: string): string {
  const parsed = schema.safeParse(text);
  if (parsed.success) return parsed.data;
  throw new UsageError(`${name} ${parsed.error.issues[0]?.message}`);
}

function formatDecision(decision: Decision, permission: string, colorize: Colorize): string {
  const { allowed, transform, reason, rule, trace = [] } = decision;
  const outcome = allowed ? colorize('green', `allowed, as ${transform}`) : colorize('red', 'denied');
  const description = rule?.description ? [`  ${escapeText(rule.description)}`] : [];
  const isDeciding = (step: DecisionStep) => step.of === rule?.of && step.rule === rule.rule;
  const rows = trace.map((step) => rowOf(step, permission, isDeciding(step)));
  const widths = columnWidths(rows);
  const lines = rows.map((cells, index) => {
    const line = `  ${inColumns(cells, widths)}`;
    return isDeciding(trace[index] as DecisionStep) ? colorize('bold', line) : colorize('dim', line);
  });
  return [
    `${outcome}: ${escapeText(reason)}`,
    ...description,
    ...(lines.length > 0 ? ['', ...lines] : []),
  ].join('\n');
}

function rowOf(step: DecisionStep, permission: string, isDeciding: boolean): string[] {
  const passes = step.grants && step.matches;
  const name = step.rule === 'permissions' ? 'permissions' : `rule ${step.rule}`;
  const obstacles = [
    ...(step.grants ? [] : [`does not grant ${permission}`]),
    ...(step.matches ? [] : [step.why]),
  ];
  return [
    passes ? '✓' : '✗',
    `${name} of the ${step.of}`,
    step.priority === undefined ? 'lowest priority' : `priority ${step.priority}`,
    step.require_purpose ? `${step.transform} with a purpose` : step.transform,
    `${escapeText(passes ? step.why : obstacles.join('; '))}${isDeciding ? ' (decides)' : ''}`,
  ];
}
