/** Permissions and rules, being written. */
import { Button } from '@mantine/core';
import { Icon } from '../frame/icons.tsx';
import { type Grants, newRule, type Owner } from './grants.ts';
import { PermissionPicker } from './permissions.tsx';
import { RuleEditor } from './rule.tsx';

export type Errors = Readonly<Record<string, readonly string[]>>;

interface Props {
  readonly owner: Owner;
  readonly grants: Grants;
  readonly errors: Errors;
  readonly change: (grants: Grants) => void;
}

/** The first complaint about a part, or about anything inside it. */
export function complaintAbout(errors: Errors, path: string): string | undefined {
  const inside = Object.entries(errors).find(([name]) => name === path || name.startsWith(`${path}.`));
  return inside?.[1][0];
}

export function GrantsEditor({ owner, grants, errors, change }: Props) {
  const { permissions, rules } = grants;
  return (
    <div className="stack">
      <section className="stack-tight">
        <h3>Rules</h3>
        <p className="fine">What it may do with the data in one place, and how much of it is shown.</p>
        {rules.map((rule, index) => (
          <RuleEditor
            key={index}
            owner={owner}
            rule={rule}
            number={index + 1}
            errors={(field) => complaintAbout(errors, `rules.${index}.${field}`)}
            change={(next) =>
              change({ ...grants, rules: rules.map((each, at) => (at === index ? next : each)) })
            }
            remove={() => change({ ...grants, rules: rules.filter((_, at) => at !== index) })}
          />
        ))}
        <div>
          <Button
            variant="default"
            leftSection={<Icon name="plus" size={14} />}
            onClick={() => change({ ...grants, rules: [...rules, newRule(owner, rules)] })}
          >
            Add a rule
          </Button>
        </div>
      </section>
      <section className="stack-tight">
        <h3>Permissions everywhere</h3>
        <p className="fine">These hold in every container, with data masked. Rules are asked first.</p>
        <PermissionPicker
          owner={owner}
          chosen={permissions}
          choose={(next) => change({ ...grants, permissions: next })}
        />
        {complaintAbout(errors, 'permissions') && (
          <p className="complaint" role="alert">
            {complaintAbout(errors, 'permissions')}
          </p>
        )}
      </section>
    </div>
  );
}
