import type { AccessRule, Application, ApplicationWithKey } from '../../../sdk/src/sallyport.ts';
import type { Call } from '../command.ts';
import { fields } from '../terminal/table.ts';

export function showApplication(
  { json, print }: Call,
  app: Application | ApplicationWithKey,
  keyFile?: string,
): number {
  if (json) {
    print(JSON.stringify({ ...app, ...(keyFile && { key_file: keyFile }) }));
    return 0;
  }
  print(
    fields([
      ['id', app.id],
      ['name', app.name],
      ['type', app.type],
      ['permissions', app.permissions.join(', ')],
      ...app.rules.map((rule, index) => [`rule ${index + 1}`, formatRule(rule)] as const),
      ['origins', app.allowed_origins?.join(', ')],
      ['created', by(app.created_at, app.created_by)],
      ['modified', by(app.modified_at, app.modified_by)],
      ['expires', app.expires_at ?? 'never'],
      ['last used', app.last_used_at],
      ['key', 'key' in app ? `${app.key} (shown only once)` : keyFile && `written to ${keyFile}`],
    ]),
  );
  return 0;
}

export function formatRule({
  priority,
  permissions,
  container,
  conditions,
  transform,
  description,
}: AccessRule): string {
  const scope = [
    ...(container ? [`in ${container}`] : []),
    ...(conditions ?? []).map(({ attribute, operator, value }) => `where ${attribute} ${operator} ${value}`),
  ];
  const note = description ? ` (${description})` : '';
  return `priority ${priority}: ${[permissions.join(', '), ...scope, `as ${transform}`].join(' ')}${note}`;
}

function by(at: string | undefined, actor: string | undefined): string | undefined {
  return at && actor ? `${at} by ${actor}` : at;
}

export function summarizeGrants({ permissions, rules }: Pick<Application, 'permissions' | 'rules'>): string {
  const [first = '', ...more] = [
    ...permissions,
    ...(rules.length > 0 ? [`${rules.length} rule${rules.length > 1 ? 's' : ''}`] : []),
  ];
  return more.length > 2 ? `${first} and ${more.length} more` : [first, ...more].join(', ');
}

export function titleOf({ name, type, id }: Application): string {
  return `${type} application "${name}" (${id})`;
}
