/** Asks for confirmation before unsaved changes are lost. */
import { useEffect, useRef } from 'react';

const question = 'Leave without saving? Your changes or the new key will be lost.';

let unsavedPage = false;

/** Asks before the user signs out with unsaved changes. */
export function confirmLeaving(): boolean {
  return !unsavedPage || confirm(question);
}

/**
 * Asks for confirmation when the user leaves without saving. Calls `discard` if the user goes to another page of the
 * console. Returns a function that turns the confirmation off until the next change. Call it after saving.
 */
export function useUnsaved(unsaved: boolean, discard: () => void): () => void {
  const saved = useRef(false);
  const latest = useRef(discard);
  latest.current = discard;
  useEffect(() => {
    if (!unsaved) return;
    unsavedPage = true;
    saved.current = false;
    const leaving = (event: Event) => {
      if (!saved.current) event.preventDefault();
    };
    const moving = (event: NavigateEvent) => {
      if (saved.current || !event.hashChange || !event.cancelable) return;
      if (confirm(question)) latest.current();
      else event.preventDefault();
    };
    // Older browsers lack the Navigation API. They ask only when the tab is closed or reloaded.
    const { navigation } = globalThis as { navigation?: Navigation };
    addEventListener('beforeunload', leaving);
    navigation?.addEventListener('navigate', moving);
    return () => {
      unsavedPage = false;
      removeEventListener('beforeunload', leaving);
      navigation?.removeEventListener('navigate', moving);
    };
  }, [unsaved]);
  return () => {
    saved.current = true;
  };
}
