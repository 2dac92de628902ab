/** How a frame connects to its page and to the other frames of the same form. */
import { type FrameOptions, protocol, type ToFrame, type ToPage } from '../../sdk/src/frame-messages.ts';

/** The type of this frame: the last part of its path. */
export const frameType = typeOf(location);

export function typeOf({ pathname }: Location): string {
  return pathname.slice(pathname.lastIndexOf('/') + 1);
}

/** False if the page is not in a frame, and with an opaque origin such as that of a sandboxed frame. */
const isFramed = window.parent !== window && self.origin === location.origin;

export interface Page {
  /** The origin of the page, as the browser reports it. */
  readonly origin: string;
  readonly options: FrameOptions;
  send(message: ToPage): void;
}

/** Calls `start` with the page that embeds this frame, once. Then passes the messages of the page to what it returns. */
export function onPage(start: (page: Page) => ((message: ToFrame) => void) | undefined): void {
  if (!isFramed) return;
  const listener = ({ source, origin, data, ports }: MessageEvent) => {
    const [port] = ports;
    if (source !== window.parent || data?.protocol !== protocol || !port) return;
    const [ancestor = origin] = location.ancestorOrigins ?? [];
    if (origin === 'null' || ancestor !== origin) return;
    removeEventListener('message', listener);
    const send = (message: ToPage) => port.postMessage(message);
    const receive = start({ origin, options: data.options ?? {}, send });
    if (receive) port.onmessage = (event) => receive(event.data);
  };
  addEventListener('message', listener);
}

/** A message of a frame of this service to another one. */
export interface Joined {
  readonly window: Window;
  readonly type: string;
  readonly name: string;
  readonly index: number;
  readonly port: MessagePort;
}

const joining = `${protocol}/join`;

/**
 * Returns a port to the coordinator of this form. Tells the page if there is none. The page takes no part in this: the
 * browser lets only frames of the same origin read each other's address, and delivers the port to this origin only.
 */
export function joinCoordinator(page: Page, name = ''): MessagePort | undefined {
  for (let index = 0; index < window.parent.length; index++) {
    const frame = window.parent[index] as Window;
    if (!isSibling(frame) || typeOf(frame.location) !== 'coordinator') continue;
    const { port1, port2 } = new MessageChannel();
    frame.postMessage({ protocol: joining, name, index: page.options.index }, self.origin, [port2]);
    return port1;
  }
  page.send({ kind: 'failed', problem: { code: 'frame_failed', message: 'The form has no coordinator.' } });
  return undefined;
}

/** For the coordinator: calls `join` for every frame of this form that looks for it. */
export function onJoin(join: (frame: Joined) => void): void {
  if (!isFramed) return;
  addEventListener('message', ({ source, origin, data, ports }: MessageEvent) => {
    const [port] = ports;
    if (origin !== self.origin || data?.protocol !== joining || !port) return;
    const frame = source as Window;
    if (!isSibling(frame)) return;
    join({
      window: frame,
      type: typeOf(frame.location),
      name: String(data.name),
      index: Number(data.index),
      port,
    });
  });
}

/** Whether the frame has this origin, page, application and form. Other origins throw when their address is read. */
function isSibling(frame: Window): boolean {
  try {
    const { origin, search, hash } = frame.location;
    return (
      frame.origin === self.origin &&
      origin === location.origin &&
      search === location.search &&
      hash === location.hash &&
      frame.parent === window.parent
    );
  } catch {
    return false;
  }
}

/** The public key in the address. */
export function applicationKey(): string {
  return new URLSearchParams(location.search).get('application') ?? '';
}

/** Texts of the page, which it may not misuse to fill the frame. */
export function shortText(given: unknown, fallback = ''): string {
  return typeof given === 'string' ? given.slice(0, 200) : fallback;
}

/** Language, direction and colors of the page. */
export function adoptPage({ lang, dir, colorScheme }: FrameOptions): void {
  const root = document.documentElement;
  root.lang = shortText(lang, 'en').slice(0, 35) || 'en';
  root.dir = dir === 'rtl' ? 'rtl' : 'ltr';
  if (typeof colorScheme === 'string' && /^[a-z ]{1,30}$/.test(colorScheme))
    root.style.colorScheme = colorScheme;
}

export function create<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]>,
): HTMLElementTagNameMap[K] {
  return Object.assign(document.createElement(tag), properties);
}

/** Tells the page the height of the element. It depends on the styles only, never on the value. */
export function reportHeight(element: Element, page: Page): void {
  const report = () =>
    page.send({ kind: 'height', height: Math.ceil(element.getBoundingClientRect().height) });
  new ResizeObserver(report).observe(element);
}
