/** A search field whose text is stored in the URL. `/` focuses it, Escape clears it. */
import { TextInput } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';
import { Icon } from './icons.tsx';
import { useShortcuts } from './keyboard.ts';

/** Milliseconds after the last key press until the URL changes. Browsers limit how often a page may change its URL. */
const delay = 250;

interface Props {
  readonly label: string;
  readonly placeholder: string;
  /** The text in the URL. */
  readonly value: string;
  /** Called while the user types. */
  readonly onType?: (text: string) => void;
  /** Called when the user stops typing. */
  readonly onChange: (text: string) => void;
}

export function SearchField({ label, placeholder, value, onType, onChange }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(value);
  const [previous, setPrevious] = useState(value);
  if (value !== previous) {
    setPrevious(value);
    setText(value);
  }
  const latest = useRef({ onType, onChange });
  latest.current = { onType, onChange };
  useEffect(() => {
    latest.current.onType?.(text);
    if (text === value) return;
    const timer = setTimeout(() => latest.current.onChange(text), delay);
    return () => clearTimeout(timer);
  }, [text, value]);
  useShortcuts({ '/': () => input.current?.focus() });
  return (
    <TextInput
      ref={input}
      className="grow"
      type="search"
      aria-label={label}
      placeholder={placeholder}
      leftSection={<Icon name="search" size={14} />}
      rightSection={text === '' ? <kbd className="only-wide">/</kbd> : undefined}
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
      onKeyDown={(event) => event.key === 'Escape' && setText('')}
    />
  );
}
