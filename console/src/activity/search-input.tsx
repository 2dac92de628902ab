import { TextInput } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';
import { Icon } from '../frame/icons.tsx';
import { useShortcuts } from '../frame/keyboard.ts';
import { useDebounced } from '../frame/load.ts';

/** Searches when the user stops typing. */
export function SearchInput({ value, change }: { value: string; change: (text: string) => void }) {
  const [text, setText] = useState(value);
  const settled = useDebounced(text, 300);
  const input = useRef<HTMLInputElement>(null);
  const latest = useRef(change);
  latest.current = change;
  useEffect(() => latest.current(settled), [settled]);
  useEffect(() => setText(value), [value]);
  useShortcuts({ '/': () => input.current?.focus() });
  return (
    <TextInput
      ref={input}
      className="grow"
      aria-label="Search"
      placeholder="Token ID, or container such as /customers/"
      leftSection={<Icon name="search" size={14} />}
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
      onKeyDown={(event) => event.key === 'Escape' && setText('')}
    />
  );
}
