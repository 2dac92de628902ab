/** Adds a permission to a rule: a built-in one, or a custom one that the user types. */
import { Select } from '@mantine/core';
import { useState } from 'react';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { isCustomPermission, type Owner, whyNotGrantable } from './grants.ts';

interface Props {
  readonly owner: Owner;
  readonly chosen: readonly string[];
  readonly label: string;
  readonly add: (permission: string) => void;
}

export function PermissionSelect({ owner, chosen, label, add }: Props) {
  const signedIn = useSignedIn();
  const [text, setText] = useState('');
  const wanted = text.trim().toLowerCase();
  const offered = signedIn.permissions
    .filter((permission) => !whyNotGrantable(permission, owner, (name) => holds(signedIn, name)))
    .map(({ name }) => name)
    .filter((name) => !chosen.includes(name));
  const custom = isCustomPermission(wanted, signedIn.permissions) && !chosen.includes(wanted);
  return (
    <Select
      className="permission-select"
      aria-label={label}
      placeholder="Add permission"
      searchable
      data={custom ? [...offered, wanted] : offered}
      nothingFoundMessage="Nothing found. Custom permissions look like invoice:read."
      value={null}
      onChange={(name) => {
        if (name) add(name);
        setText('');
      }}
      searchValue={text}
      onSearchChange={setText}
      renderOption={({ option: { value } }) =>
        custom && value === wanted ? `Add custom permission ${value}` : value
      }
    />
  );
}
