/** Chooses an application. Searches on the service, so it works with any number of applications. */
import { Select } from '@mantine/core';
import { useRef, useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { describeError } from '../frame/error-notice.tsx';
import { isUuid } from '../frame/format.ts';
import { useDebounced, useLoad } from '../frame/load.ts';
import { useSignedIn } from '../frame/signed-in.ts';

const maxResults = 50;

/**
 * Applications whose name contains the text, or whose id equals it. Newest first. While a search runs, those of the
 * results before it, so that an option does not vanish under the pointer.
 */
export function useApplicationSearch(text: string) {
  const { api } = useSignedIn();
  const wanted = useDebounced(text.trim());
  const { data, error } = useLoad(`applications ${wanted}`, async (signal) => {
    const filter = isUuid(wanted) ? { id: [wanted] } : { name: wanted };
    const query = { size: maxResults, ...(wanted !== '' && filter) };
    return (await api.applications.list(query, { signal })).data;
  });
  const results = useRef<readonly Application[]>([]);
  if (data) results.current = data;
  const typed = text.trim().toLowerCase();
  const isDone = typed === wanted.toLowerCase() && (data !== undefined || error !== undefined);
  if (isDone) return { found: data ?? [], searching: false, error };
  const found = results.current.filter(({ name }) => name.toLowerCase().includes(typed));
  return { found, searching: found.length === 0, error: undefined };
}

/** Loads one application by id. Returns undefined while it loads, and if the id is unknown. */
export function useApplication(id: string): Application | undefined {
  const { api } = useSignedIn();
  const { data } = useLoad(`application ${id}`, async (signal) =>
    id === '' ? undefined : api.applications.get(id, { signal }),
  );
  return data;
}

interface Props {
  readonly label: string;
  readonly hideLabel?: boolean;
  readonly description?: string;
  readonly placeholder?: string;
  readonly clearable?: boolean;
  readonly value: Application | undefined;
  readonly onChange: (application: Application | undefined) => void;
}

export function ApplicationPicker({ label, hideLabel, value, onChange, clearable, ...rest }: Props) {
  const [text, setText] = useState('');
  const input = useRef<HTMLInputElement>(null);
  const chosen = useRef(false);
  // A value that arrives while somebody is in the field waits until they leave it.
  const showText = (next: string) => {
    const field = input.current;
    if (next === field?.value) chosen.current = false;
    else if (field === document.activeElement && !chosen.current) return;
    setText(next);
  };
  const search = text === value?.name ? '' : text;
  const { found, searching, error } = useApplicationSearch(search);
  const missing = value !== undefined && search === '' && !found.some(({ id }) => id === value.id);
  const listed = missing ? [value, ...found] : found;
  const none = error === undefined ? 'Nothing found' : describeError(error).title;
  return (
    <Select
      {...rest}
      {...(hideLabel ? { 'aria-label': label } : { label })}
      searchable
      clearable={clearable ?? false}
      allowDeselect={clearable ?? false}
      data={(searching && !missing ? [] : listed).map(({ id, name }) => ({ value: id, label: name }))}
      filter={({ options }) => options}
      nothingFoundMessage={searching ? 'Searching…' : none}
      value={value?.id ?? null}
      ref={input}
      onChange={(id) => {
        chosen.current = true;
        onChange(listed.find((each) => each.id === id));
      }}
      searchValue={text}
      onSearchChange={showText}
      clearButtonProps={{ 'aria-label': `Clear ${label.toLowerCase()}`, 'aria-hidden': false, tabIndex: 0 }}
    />
  );
}
