/** Editor for rules and permissions. */
import { Button } from '@mantine/core';
import { useState } from 'react';
import { summarizePermissions } from '../applications/grants-summary.ts';
import { Icon } from '../frame/icons.tsx';
import { useSignedIn } from '../frame/signed-in.ts';
import { type Grants, newRule, type Owner } from './grants.ts';
import { PermissionPicker } from './permission-picker.tsx';
import { RuleEditor } from './rule-editor.tsx';

export type Errors = Readonly<Record<string, readonly string[]>>;

interface Props {
  readonly owner: Owner;
  readonly grants: Grants;
  readonly errors: Errors;
  readonly change: (grants: Grants) => void;
}

/** The first error of a field or of its subfields. */
export function fieldError(errors: Errors, path: string): string | undefined {
  const entry = Object.entries(errors).find(([name]) => name === path || name.startsWith(`${path}.`));
  return entry?.[1][0];
}

export function GrantsEditor({ owner, grants, errors, change }: Props) {
  const { permissions, rules } = grants;
  return (
    <div className="stack">
      <section className="stack-tight">
        <h3>Access rules</h3>
        <p className="fine">A rule grants permissions in one container and sets how data is shown.</p>
        {rules.map((rule, index) => (
          <RuleEditor
            key={index}
            owner={owner}
            rule={rule}
            number={index + 1}
            errors={(field) => fieldError(errors, `rules.${index}.${field}`)}
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
            Add rule
          </Button>
        </div>
      </section>
      <TenantWidePermissions
        owner={owner}
        chosen={permissions}
        error={fieldError(errors, 'permissions')}
        choose={(next) => change({ ...grants, permissions: next })}
      />
    </div>
  );
}

interface TenantWideProps {
  readonly owner: Owner;
  readonly chosen: readonly string[];
  readonly error: string | undefined;
  readonly choose: (permissions: string[]) => void;
}

/** Collapsed at first, because most applications need none of these permissions. Opens if they have an error. */
function TenantWidePermissions({ owner, chosen, error, choose }: TenantWideProps) {
  const [open, setOpen] = useState(false);
  const { permissions: known } = useSignedIn();
  return (
    <>
      <details
        className="fold"
        open={open || error !== undefined}
        onToggle={(event) => setOpen(event.currentTarget.open)}
      >
        <summary>
          <Icon name="right" size={12} />
          <h3>Permissions in all containers</h3>
          <span className="fine">
            {chosen.length === 0 ? 'none' : summarizePermissions(chosen, known.length)}
          </span>
        </summary>
        <p className="fine">Data is masked. Rules take precedence.</p>
        <PermissionPicker owner={owner} chosen={chosen} choose={choose} />
      </details>
      {error && (
        <p className="error-text" role="alert">
          {error}
        </p>
      )}
    </>
  );
}
