import type { Decision, DecisionStep } from '../../../sdk/src/sallyport.ts';
import { escapeText } from '../../domain/escape.ts';
import type { Call, RemoteCommand } from '../command.ts';
import type { Colorize } from '../terminal/colors.ts';
import { inColumns } from '../terminal/table.ts';

export const canCommands: readonly RemoteCommand[] = [
  {
    words: ['can'],
    takes: ['PERMISSION'],
    options: [
      { name: 'id', takes: 'ID', sentence: 'The id of what it is to be used on.' },
      { name: 'container', takes: 'PATH', sentence: 'The container that this lies in.' },
    ],
    summary: 'Check whether a credential may do something, and explain why.',
    examples: ['sallyport can token:read --container /customers/42/'],
    details:
      'The credential is in SALLYPORT_CREDENTIAL or on standard input; the key to call with needs decision:create. Exits with 0 if it may, with 1 if not.',
    call: can,
  },
];

async function can({ args, options, input, service, json, paint, print }: Call): Promise<number> {
  const permission = args[0] as string;
  const credential = await input.secret('SALLYPORT_CREDENTIAL', 'credential');
  const [id, container] = [options.value('id'), options.value('container')];
  const resource = { ...(id !== undefined && { id }), ...(container !== undefined && { container }) };
  const decision = await service.decide({ credential, permission, resource, explain: true });
  print(json ? JSON.stringify(decision) : inWords(decision, permission, paint));
  return decision.allowed ? 0 : 1;
}

function inWords(decision: Decision, permission: string, paint: Colorize): string {
  const { allowed, transform, reason, rule, trace = [] } = decision;
  const verdict = allowed ? paint('green', `allowed, as ${transform}`) : paint('red', 'denied');
  const description = rule?.description ? [`  ${escapeText(rule.description)}`] : [];
  const decides = (step: DecisionStep) => step.of === rule?.of && step.rule === rule.rule;
  const rows = trace.map((step) => rowOf(step, permission, decides(step)));
  const widths = [0, 1, 2, 3].map((column) =>
    Math.max(...rows.map((cells) => Bun.stringWidth(cells[column] ?? ''))),
  );
  const lines = rows.map((cells, index) => {
    const line = `  ${inColumns(cells, widths)}`;
    return decides(trace[index] as DecisionStep) ? paint('bold', line) : paint('dim', line);
  });
  return [
    `${verdict}: ${escapeText(reason)}`,
    ...description,
    ...(lines.length > 0 ? ['', ...lines] : []),
  ].join('\n');
}

function rowOf(step: DecisionStep, permission: string, decides: boolean): string[] {
  const passes = step.grants && step.matches;
  const name = step.rule === 'permissions' ? 'permissions' : `rule ${step.rule}`;
  const against = [
    ...(step.grants ? [] : [`does not grant ${permission}`]),
    ...(step.matches ? [] : [step.why]),
  ];
  return [
    passes ? '✓' : '✗',
    `${name} of the ${step.of}`,
    step.priority === undefined ? 'last' : `priority ${step.priority}`,
    step.transform,
    `${escapeText(passes ? step.why : against.join('; '))}${decides ? ', and decides' : ''}`,
  ];
}
