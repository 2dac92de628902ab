/** Asks before what was written here is lost, whether the page is left or only this place in it. */
import { useEffect, useRef } from 'react';

const question = 'Leave without saving? What you have changed here is lost.';

/** Returns how to leave without being asked, for when it is saved. */
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
    // Absent in older browsers, which then ask only when the page is left.
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
