/** Chooses a built-in permission. The user can type any other. */
import { Select } from '@mantine/core';
import { useState } from 'react';
import { useSignedIn } from '../frame/signed-in.ts';

interface Props {
  /** Empty for all permissions. */
  readonly value: string;
  readonly choose: (permission: string) => void;
  /** Whether the field may be empty. */
  readonly optional?: boolean;
}

export function PermissionField({ value, choose, optional = false }: Props) {
  const { permissions } = useSignedIn();
  const [search, setSearch] = useState('');
  const names = [...new Set([...permissions.map(({ name }) => name), value, search.trim()])];
  return (
    <Select
      label="Permission"
      placeholder="All permissions"
      data={names.filter(Boolean)}
      value={value === '' ? null : value}
      onChange={(permission) => choose(permission ?? '')}
      searchValue={search}
      onSearchChange={setSearch}
      searchable
      clearable={optional}
      allowDeselect={optional}
      clearButtonProps={{ 'aria-label': 'Clear permission' }}
    />
  );
}
