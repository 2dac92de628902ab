import { escapeText } from '../../domain/escape.ts';
import type { Colorize } from '../terminal/colors.ts';
import { describeGrants, isEmpty, type Plan } from './plan.ts';

export function formatPlan(plan: Plan, colorize: Colorize): string {
  const unmanaged = plan.unmanaged.map(({ name, id }) => escapeText(`  ${name} (${id})`));
  return [
    ...plan.create.flatMap((one) => [
      colorize('green', escapeText(`+ ${one.type} ${one.name}`)),
      ...describeGrants(one).map((grant) => escapeText(`    + ${grant}`)),
    ]),
    ...plan.update.flatMap(({ current, add, remove }) => [
      colorize('yellow', escapeText(`~ ${current.type} ${current.name}`)),
      ...remove.map((grant) => escapeText(`    - ${grant}`)),
      ...add.map((grant) => escapeText(`    + ${grant}`)),
    ]),
    ...plan.delete.map(({ type, name, id }) => colorize('red', escapeText(`- ${type} ${name} (${id})`))),
    ...(unmanaged.length > 0 ? [colorize('dim', 'not in the file, unchanged:'), ...unmanaged] : []),
    isEmpty(plan)
      ? `no changes: ${plan.unchanged} applications match the file`
      : `${plan.create.length} to create, ${plan.update.length} to update, ${plan.delete.length} to delete, ${plan.unchanged} unchanged`,
  ].join('\n');
}

export function planToJson(plan: Plan) {
  const brief = ({ id, name }: { id: string; name: string }) => ({ id, name });
  return {
    create: plan.create.map((one) => ({ name: one.name, type: one.type, add: describeGrants(one) })),
    update: plan.update.map(({ current, add, remove }) => ({ ...brief(current), remove, add })),
    delete: plan.delete.map(brief),
    unmanaged: plan.unmanaged.map(brief),
    unchanged: plan.unchanged,
  };
}
