/** A plan, for people and for programs. Neither shows a secret: there is none in it. */
import { escapeText } from '../../domain/escape.ts';
import type { Colorize } from '../terminal/colors.ts';
import { grantsIn, isEmpty, type Plan } from './plan.ts';

export function inWords(plan: Plan, paint: Colorize): string {
  const left = plan.left.map(({ name, id }) => escapeText(`  ${name} (${id})`));
  return [
    ...plan.create.flatMap((one) => [
      paint('green', escapeText(`+ ${one.type} ${one.name}`)),
      ...grantsIn(one).map((grant) => escapeText(`    + ${grant}`)),
    ]),
    ...plan.update.flatMap(({ current, add, remove }) => [
      paint('yellow', escapeText(`~ ${current.type} ${current.name}`)),
      ...remove.map((grant) => escapeText(`    - ${grant}`)),
      ...add.map((grant) => escapeText(`    + ${grant}`)),
    ]),
    ...plan.delete.map(({ type, name, id }) => paint('red', escapeText(`- ${type} ${name} (${id})`))),
    ...(left.length > 0 ? [paint('dim', 'not in the file, and left alone:'), ...left] : []),
    isEmpty(plan)
      ? `nothing to do: ${plan.unchanged} as the file has them`
      : `${plan.create.length} to create, ${plan.update.length} to update, ${plan.delete.length} to delete, ${plan.unchanged} as the file has them`,
  ].join('\n');
}

export function asJson(plan: Plan) {
  const brief = ({ id, name }: { id: string; name: string }) => ({ id, name });
  return {
    create: plan.create.map((one) => ({ name: one.name, type: one.type, add: grantsIn(one) })),
    update: plan.update.map(({ current, add, remove }) => ({ ...brief(current), remove, add })),
    delete: plan.delete.map(brief),
    left: plan.left.map(brief),
    unchanged: plan.unchanged,
  };
}
