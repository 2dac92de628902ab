/** Announcements for screen readers. */
type Listener = (text: string) => void;
let listener: Listener | undefined;

export function announce(text: string): void {
  listener?.(text);
}

export function onAnnouncement(next: Listener): () => void {
  listener = next;
  return () => {
    if (listener === next) listener = undefined;
  };
}
