/** Asks for confirmation before unsaved changes are lost. */
import { useEffect, useRef } from 'react';

const question = 'Leave without saving? Your changes will be lost.';

/** Returns a function that turns the confirmation off. Call it after saving. */
export function useUnsaved(unsaved: boolean): () => void {
  const saved = useRef(false);
  useEffect(() => {
    if (!unsaved) return;
    const leaving = (event: Event) => {
      if (!saved.current) event.preventDefault();
    };
    const moving = (event: NavigateEvent) => {
      if (!saved.current && event.hashChange && event.cancelable && !confirm(question))
        event.preventDefault();
    };
    // Older browsers lack it, and ask only when the tab is closed or reloaded.
    const { navigation } = globalThis as { navigation?: Navigation };
    addEventListener('beforeunload', leaving);
    navigation?.addEventListener('navigate', moving);
    return () => {
      removeEventListener('beforeunload', leaving);
      navigation?.removeEventListener('navigate', moving);
    };
  }, [unsaved]);
  return () => {
    saved.current = true;
  };
}
