/**
 * The key of a tab whose user chose to stay signed in. It is in the tab's sessionStorage, so it survives a reload, and
 * closing the tab deletes it. New tabs ask open tabs for it. After `idleLimit` without input, the key is deleted and
 * the tab is locked: it does not ask other tabs until the user signs in again.
 */
export interface FoundKey {
  readonly key: string;
  /** Whether the user chose to stay signed in. */
  readonly keep: boolean;
}

interface StoredKey extends FoundKey {
  /** Milliseconds since 1970. */
  readonly lastInput: number;
}

export const idleLimit = 15 * 60_000;
export const inputs = ['keydown', 'pointerdown', 'wheel'] as const;
const keyName = 'sallyport.key';
const lockedName = 'sallyport.locked';
const channelName = 'sallyport.sign-in';
/** How long a new tab waits for an answer of another tab, in milliseconds. */
const answerTimeout = 200;
/** Milliseconds between two writes of `lastInput`. The stored time can be this much too early. */
const writeInterval = 10_000;

type Message = { readonly type: 'ask' | 'sign-out' } | { readonly type: 'answer'; readonly key: string };

function store(stored: StoredKey): void {
  try {
    sessionStorage.setItem(keyName, JSON.stringify(stored));
  } catch {
    // Storage is disabled or full. The key then lives only in the page.
  }
}

export function keepKey(key: string): void {
  sessionStorage.removeItem(lockedName);
  store({ key, keep: true, lastInput: Date.now() });
}

/** Stores the key for the next load of this tab only. */
export function keepKeyForReload(key: string, keep: boolean): void {
  store({ key, keep, lastInput: Date.now() });
}

export function forgetKey(): void {
  sessionStorage.removeItem(keyName);
}

export function lockTab(): void {
  forgetKey();
  sessionStorage.setItem(lockedName, 'true');
}

/** Reads the key of this tab. Locks the tab after too long a time without input. */
export function findKey(): FoundKey | undefined {
  const text = sessionStorage.getItem(keyName);
  if (text === null) return undefined;
  const { key, keep, lastInput } = JSON.parse(text) as StoredKey;
  const idle = Date.now() - lastInput;
  if (!keep) forgetKey();
  if (idle >= 0 && idle < idleLimit) return { key, keep };
  lockTab();
  return undefined;
}

export function isLocked(): boolean {
  return sessionStorage.getItem(lockedName) !== null;
}

/** Asks the other tabs for their key. Returns undefined if they have none, or if this tab is locked. */
export async function askOtherTabs(): Promise<FoundKey | undefined> {
  if (isLocked()) return undefined;
  const channel = new BroadcastChannel(channelName);
  try {
    return await new Promise((resolve) => {
      channel.onmessage = ({ data }: MessageEvent<Message>) =>
        data.type === 'answer' && resolve({ key: data.key, keep: true });
      channel.postMessage({ type: 'ask' } satisfies Message);
      setTimeout(() => resolve(undefined), answerTimeout);
    });
  } finally {
    channel.close();
  }
}

/** Signs out the other tabs that have stored a key. */
export function signOutOtherTabs(): void {
  const channel = new BroadcastChannel(channelName);
  channel.postMessage({ type: 'sign-out' } satisfies Message);
  channel.close();
}

/**
 * While this tab has a stored key, answers new tabs that ask for it, and calls `idle` after `idleLimit` without input.
 * Returns a function that stops this.
 */
export function guardKey(key: string, on: { readonly idle: () => void; readonly signOut: () => void }) {
  let lastInput = Date.now();
  let written = lastInput;
  const isIdle = () => Date.now() - lastInput >= idleLimit;
  const check = () => isIdle() && on.idle();
  const input = () => {
    if (isIdle()) return on.idle();
    lastInput = Date.now();
    if (lastInput - written < writeInterval) return;
    written = lastInput;
    store({ key, keep: true, lastInput });
  };
  const channel = new BroadcastChannel(channelName);
  channel.onmessage = ({ data }: MessageEvent<Message>) => {
    if (data.type === 'sign-out') on.signOut();
    if (data.type === 'ask' && !isIdle()) channel.postMessage({ type: 'answer', key } satisfies Message);
  };
  for (const name of inputs) addEventListener(name, input, { passive: true, capture: true });
  document.addEventListener('visibilitychange', check);
  const timer = setInterval(check, writeInterval);
  return () => {
    channel.close();
    clearInterval(timer);
    document.removeEventListener('visibilitychange', check);
    for (const name of inputs) removeEventListener(name, input, { capture: true });
  };
}
