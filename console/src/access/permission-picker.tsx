/** Checkboxes for permissions, grouped by family, with descriptions. */
import { Button, Checkbox, TextInput } from '@mantine/core';
import { useState } from 'react';
import { Icon } from '../frame/icons.tsx';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { familyOf, isCustomPermission, type Owner, whyNotGrantable } from './grants.ts';

interface Props {
  readonly owner: Owner;
  readonly chosen: readonly string[];
  readonly choose: (permissions: string[]) => void;
}

export function PermissionPicker({ owner, chosen, choose }: Props) {
  const signedIn = useSignedIn();
  const [text, setText] = useState('');
  const wanted = text.trim().toLowerCase();
  const known = signedIn.permissions.map(({ name }) => name);
  const custom = chosen.filter((name) => !known.includes(name));
  const found = signedIn.permissions.filter(
    ({ name, description }) => name.includes(wanted) || description.toLowerCase().includes(wanted),
  );
  const families = Map.groupBy(found, ({ name }) => familyOf(name));
  const canAdd = isCustomPermission(wanted, signedIn.permissions) && !chosen.includes(wanted);
  const toggle = (name: string) =>
    choose(chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name]);
  return (
    <div className="picker">
      <TextInput
        aria-label="Search permissions"
        placeholder="Search, or enter a custom permission such as invoice:read"
        leftSection={<Icon name="search" size={14} />}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return;
          event.preventDefault();
          if (canAdd) toggle(wanted);
        }}
      />
      {canAdd && (
        <Button variant="light" onClick={() => toggle(wanted)} leftSection={<Icon name="plus" size={14} />}>
          Add {wanted}
        </Button>
      )}
      <div className="families">
        {custom.length > 0 && (
          <fieldset>
            <legend>Custom</legend>
            {custom.map((name) => (
              <Checkbox key={name} checked label={<code>{name}</code>} onChange={() => toggle(name)} />
            ))}
          </fieldset>
        )}
        {[...families].map(([family, members]) => (
          <fieldset key={family}>
            <legend>{family}</legend>
            {members.map((permission) => {
              const why = whyNotGrantable(permission, owner, (name) => holds(signedIn, name));
              const checked = chosen.includes(permission.name);
              return (
                <Checkbox
                  key={permission.name}
                  checked={checked}
                  disabled={why !== undefined && !checked}
                  onChange={() => toggle(permission.name)}
                  label={<code>{permission.name}</code>}
                  description={why ? `${permission.description} ${why}` : permission.description}
                />
              );
            })}
          </fieldset>
        ))}
        {found.length === 0 && !canAdd && <p className="fine">No matching permissions.</p>}
      </div>
    </div>
  );
}
