import type { Decision, DecisionStep } from '../../../sdk/src/sallyport.ts';
import { escapeText } from '../../domain/escape.ts';
import type { Call, RemoteCommand } from '../command.ts';
import { only } from '../terminal/options.ts';
import { columnWidths, inColumns } from '../terminal/print.ts';
import type { Colorize } from '../terminal/terminal.ts';

export const canCommand: RemoteCommand = {
  usage: 'can <PERMISSION>',
  options: [
    { name: 'id', value: 'ID', description: 'Id of the resource.' },
    { name: 'container', value: 'PATH', description: 'Container of the resource, such as /customers/42/.' },
  ],
  summary: 'Check whether a key has a permission, and explain why.',
  examples: ['SALLYPORT_CREDENTIAL=… sallyport can token:read --container /customers/42/'],
  details:
    'The key to check comes from SALLYPORT_CREDENTIAL or standard input. Your own key needs decision:create. Exits with 0 if allowed, with 1 if denied.',
  call: can,
};

async function can({ args, options, input, service, colorize, printResult }: Call): Promise<number> {
  const permission = args[0] as string;
  const credential = await input.secret('SALLYPORT_CREDENTIAL', 'credential');
  const resource = only({ id: options.value('id'), container: options.value('container') });
  const decision = await service.decide({ credential, permission, resource, explain: true });
  return printResult(decision, formatDecision(decision, permission, colorize), decision.allowed ? 0 : 1);
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
    step.transform,
    `${escapeText(passes ? step.why : obstacles.join('; '))}${isDeciding ? ' (decides)' : ''}`,
  ];
}
