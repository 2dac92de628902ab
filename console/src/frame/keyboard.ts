/** Keys that do something wherever one is, unless one is typing. */
import { useEffect, useRef } from 'react';
import { go } from './place.ts';

type Shortcuts = Readonly<Record<string, () => void>>;

export const journeys: Readonly<Record<string, string>> = {
  a: 'applications',
  w: 'preview',
  s: 'sessions',
  t: 'tokens',
  l: 'activity',
};

function isTyping({ target }: KeyboardEvent): boolean {
  return target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable="true"]');
}

/** `mod+k` also while typing; plain ones not, nor while a dialog is open. */
export function useShortcuts(shortcuts: Shortcuts): void {
  const latest = useRef(shortcuts);
  latest.current = shortcuts;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.altKey) return;
      const modified = event.metaKey || event.ctrlKey;
      const name = modified ? `mod+${event.key.toLowerCase()}` : event.key;
      if (!modified && (isTyping(event) || document.querySelector('[role="dialog"]'))) return;
      const act = latest.current[name];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
}

/** `g` and then the letter of a section. */
export function useJourneys(): void {
  useEffect(() => {
    let begun = 0;
    const pressed = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event)) return;
      if (document.querySelector('[role="dialog"]')) return;
      const to = event.timeStamp - begun < 1200 ? journeys[event.key] : undefined;
      begun = event.key === 'g' ? event.timeStamp : 0;
      if (!to) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      go(to);
    };
    addEventListener('keydown', pressed, { capture: true });
    return () => removeEventListener('keydown', pressed, { capture: true });
  }, []);
}
