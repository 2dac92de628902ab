/** Keyboard shortcuts. */
import { useEffect, useRef } from 'react';
import { navigate } from './route.ts';

/** The modifier of `mod+k`, as keyboards of this system show it. */
export const modifierKey = /Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘' : 'Ctrl ';

type Shortcuts = Readonly<Record<string, () => void>>;

export const sectionKeys: Readonly<Record<string, string>> = {
  o: 'overview',
  a: 'applications',
  p: 'preview',
  w: 'who',
  s: 'sessions',
  t: 'tokens',
  d: 'destinations',
  l: 'activity',
};

function isTyping({ target }: KeyboardEvent): boolean {
  return target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable="true"]');
}

/** Shortcuts without a modifier are ignored while typing or while a dialog is open. `mod+k` always works. */
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

/** `g` followed by a letter opens a section. */
export function useSectionKeys(): void {
  useEffect(() => {
    let startedAt = 0;
    const pressed = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event)) return;
      if (document.querySelector('[role="dialog"]')) return;
      const to = event.timeStamp - startedAt < 1200 ? sectionKeys[event.key] : undefined;
      startedAt = event.key === 'g' ? event.timeStamp : 0;
      if (!to) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      navigate(to);
    };
    addEventListener('keydown', pressed, { capture: true });
    return () => removeEventListener('keydown', pressed, { capture: true });
  }, []);
}
