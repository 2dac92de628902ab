/** What a screen reader says when something happened that is otherwise only seen. */
type Listener = (text: string) => void;
let listener: Listener | undefined;

export function announce(text: string): void {
  listener?.(text);
}

export function onAnnouncement(heard: Listener): () => void {
  listener = heard;
  return () => {
    if (listener === heard) listener = undefined;
  };
}
