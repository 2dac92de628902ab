/** Input fields and data in frames of Sallyport, so that the page never has the plaintext or the session key. */
import {
  type CardBrand,
  type CollectedToken,
  type FieldErrorCode,
  type FieldState,
  type FieldType,
  type FrameOptions,
  type FrameProblem,
  type FrameStyle,
  protocol,
  type RevealTexts,
  type TextFormat,
  type ToFrame,
  type ToPage,
} from './frame-messages.ts';

export type {
  CardBrand,
  CollectedToken,
  FieldErrorCode,
  FieldState,
  FieldType,
  FrameStyle,
  RevealTexts,
  TextFormat,
} from './frame-messages.ts';

export interface FormOptions {
  /** `SALLYPORT_FRAMES_URL` of the service, such as `https://frames.example.com`. */
  readonly url: string | URL;
  /** The key of a public application with `allowed_origins`. */
  readonly publicKey: string;
  /**
   * Sends the nonce to your backend. Must resolve after the backend has authorized the session. It may resolve to the
   * `Response` of the backend, which must have a status of 2xx, or to an object with `expiresAt`.
   */
  readonly authorize: (nonce: string) => Promise<unknown>;
  /** Used in every frame of the form. */
  readonly style?: FrameStyle;
  /**
   * The language of the texts, such as `de`, or `auto` for that of the browser. Default: the language of the page. Texts of
   * languages that Sallyport does not have are in English.
   */
  readonly locale?: string;
  /** Milliseconds after which a frame that does not answer counts as failed. Default: 20 seconds. */
  readonly timeout?: number;
}

interface CommonOptions {
  /** Names the frame for screen readers. With an element, its text is used, and a click on it focuses the field. */
  readonly label: string | HTMLElement;
  readonly style?: FrameStyle;
}

export interface FieldOptions extends CommonOptions {
  /** The container of the token. The session must have `token:create` there. Default: `/general/`. */
  readonly container?: string;
  readonly placeholder?: string;
  /** Texts of errors in place of those of the language. Screen readers read them, and `state.error` has them. */
  readonly errors?: Partial<Record<FieldErrorCode, string>>;
  /** Card numbers only: the brands that are accepted. Default: all, and numbers of no known brand. */
  readonly accept?: readonly CardBrand[];
  /** Text fields only: the values that are accepted. Default: `any`. */
  readonly format?: TextFormat;
  /** Cards only: the container of the verification code. Default: that of the card. */
  readonly codeContainer?: string;
  /** Text fields only: the name of the token in the result of `submit`. Default: `text`. */
  readonly name?: string;
  readonly onChange?: (state: FieldState) => void;
  /** Called when the user presses Enter in the field. */
  readonly onEnter?: () => void;
}

export interface RevealOptions extends CommonOptions {
  /** The id of the token. */
  readonly token: string;
  /** Why the data is shown, for the audit log and for rules with `require_purpose`. */
  readonly purpose?: string;
  /** Seconds after which the data is hidden again: 5 to 120. Default: 30. */
  readonly seconds?: number;
  readonly texts?: Partial<RevealTexts>;
  readonly onChange?: (shown: boolean) => void;
}

export interface Frame {
  readonly element: HTMLIFrameElement;
  /** Resolves when the frame is ready. Rejects with a `FrameError` if it did not load. */
  readonly ready: Promise<void>;
  focus(): void;
  remove(): void;
}

export interface Field extends Frame {
  readonly state: FieldState;
  /** Empties the field. */
  clear(): void;
}

export interface Form {
  /**
   * Resolves when the coordinator and all fields so far are ready. Rejects with a `FrameError` that says what is wrong, for
   * example that the application does not allow the origin of the page.
   */
  readonly ready: Promise<void>;
  field(type: FieldType, into: string | Element, options: FieldOptions): Field;
  /** A frame in which the user can show the data of a token. */
  reveal(into: string | Element, options: RevealOptions): Frame;
  /**
   * Stores the values of all fields. Resolves to the tokens by name: `card` (number and expiry), `verification_code`,
   * `iban`, and the names of text fields. Rejects with a `FrameError`; the values then stay in the fields, and the first one
   * that is not valid gets the focus.
   */
  submit(): Promise<Record<string, CollectedToken>>;
  /** Removes all frames and forgets the session. */
  remove(): void;
}

/** `code` is `invalid_fields`, `not_authorized`, `frame_failed`, `connection_failed`, or the code of an API error. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
  readonly code: string;
  readonly requestId: string | undefined;
  constructor({ code, message, requestId }: FrameProblem) {
    super(message);
    this.code = code;
    this.requestId = requestId;
  }
}

const hidden = { position: 'absolute', width: '0', height: '0', border: '0', visibility: 'hidden' };
const visible = { display: 'block', width: '100%', height: '40px', border: '0' };

/** Starts a form. Its fields share one session, which is created when it is first needed. */
export function createForm(options: FormOptions): Form {
  const { origin } = new URL(options.url);
  const id = Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(36)).join('');
  const connections = new Set<Connection>();
  const containers = new Map<string, string>();
  const submissions = new Map<number, Handlers<Record<string, CollectedToken>>>();
  const fields = new Map<number, Frame>();
  let lastSubmission = 0;
  let lastField = 0;

  function open(
    type: string,
    into: Element,
    given: FrameOptions,
    receive: (message: ToPage) => void,
    before?: Connection,
  ) {
    const element = document.createElement('iframe');
    element.src = `${origin}/frames/v1/${type}?application=${encodeURIComponent(options.publicKey)}#${id}`;
    element.title = given.label;
    if (type === 'reveal') element.allow = 'clipboard-write';
    Object.assign(element.style, type === 'coordinator' ? hidden : visible);
    if (type === 'coordinator') Object.assign(element, { tabIndex: -1, ariaHidden: 'true' });
    const connection = connect(element, origin, given, receive, options.timeout ?? 20_000, before);
    connections.add(connection);
    into.append(element);
    return connection;
  }

  const coordinator = open('coordinator', document.body, { label: 'Sallyport' }, (message) => {
    if (message.kind === 'authorize') void authorize(message.id, message.nonce).then(coordinator.send);
    if (message.kind !== 'collected' && message.kind !== 'rejected') return;
    const submission = submissions.get(message.id);
    submissions.delete(message.id);
    if (message.kind === 'collected') submission?.resolve(message.tokens);
    else {
      focusFirst(message.fields.flatMap((index) => fields.get(index) ?? []));
      submission?.reject(new FrameError(message.problem));
    }
  });

  async function authorize(request: number, nonce: string): Promise<ToFrame> {
    try {
      const expiresAt = expiryOf(await options.authorize(nonce));
      return { kind: 'authorized', id: request, ...(expiresAt !== undefined && { expiresAt }) };
    } catch (error) {
      return { kind: 'authorized', id: request, error: String((error as Error)?.message ?? error) };
    }
  }

  function frame(
    type: string,
    into: string | Element,
    { label, style }: CommonOptions,
    more: Partial<FrameOptions>,
    receive: (message: ToPage) => void,
  ) {
    const parent = typeof into === 'string' ? document.querySelector(into) : into;
    if (!parent) throw new TypeError(`no element matches ${into}`);
    const { colorScheme, direction } = getComputedStyle(parent);
    const { locale = document.documentElement.lang } = options;
    const lang = locale === 'auto' ? navigator.language : locale;
    const given: FrameOptions = {
      label: typeof label === 'string' ? label : (label.textContent ?? '').trim(),
      style: { ...options.style, ...style },
      colorScheme,
      dir: direction as 'ltr' | 'rtl',
      ...(lang && { lang }),
      ...more,
    };
    const connection = open(type, parent, given, receive, coordinator);
    const focus = () => {
      connection.element.focus();
      connection.send({ kind: 'focus' });
    };
    if (typeof label !== 'string') label.addEventListener('click', focus);
    return {
      ...connection,
      focus,
      remove: () => {
        if (typeof label !== 'string') label.removeEventListener('click', focus);
        connections.delete(connection);
        connection.remove();
      },
    };
  }

  return {
    get ready() {
      return Promise.all(Array.from(connections, ({ ready }) => ready)).then(() => undefined);
    },
    field: (type, into, { container, codeContainer, onChange, onEnter, ...given }) => {
      let state: FieldState = { focused: false, empty: true, valid: true, complete: false };
      const { label, style, placeholder, errors, format, name, accept } = given;
      lastField += 1;
      const index = lastField;
      const more = defined({ placeholder, errors, format, name, accept, index });
      const field = frame(type, into, { label, ...(style && { style }) }, more, (message) => {
        if (message.kind === 'enter') onEnter?.();
        if (message.kind !== 'state') return;
        state = message.state;
        onChange?.(state);
      });
      if (container !== undefined) containers.set(tokenName(type, name), container);
      const codes = type === 'card' ? (codeContainer ?? container) : undefined;
      if (codes !== undefined) containers.set('verification_code', codes);
      fields.set(index, field);
      return {
        ...field,
        clear: () => field.send({ kind: 'clear' }),
        remove: () => {
          fields.delete(index);
          field.remove();
        },
        get state() {
          return state;
        },
      };
    },
    reveal: (into, { token, purpose, seconds, texts, onChange, ...given }) => {
      const more = defined({ token, purpose, seconds, texts });
      return frame('reveal', into, given, more, (message) => {
        if (message.kind === 'shown') onChange?.(message.shown);
      });
    },
    submit: async () => {
      await coordinator.ready;
      lastSubmission += 1;
      coordinator.send({ kind: 'submit', id: lastSubmission, containers: Object.fromEntries(containers) });
      return new Promise((resolve, reject) => submissions.set(lastSubmission, { resolve, reject }));
    },
    remove: () => {
      for (const connection of connections) connection.remove();
      connections.clear();
    },
  };
}

/** Focuses the one that comes first in the page. */
function focusFirst(frames: readonly Frame[]): void {
  const [first] = [...frames].sort((a, b) =>
    a.element.compareDocumentPosition(b.element) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1,
  );
  first?.focus();
}

/** The name of the token to which a field belongs, in the result of `submit`. */
function tokenName(type: FieldType, name = 'text'): string {
  if (type === 'card-number' || type === 'expiry') return 'card';
  return type === 'text' ? name : type.replace('-', '_');
}

interface Connection extends Omit<Frame, 'focus'> {
  send(message: ToFrame): void;
}

/**
 * Connects to the frame each time it has loaded: a frame that is moved in the document loads again. A field connects
 * after the coordinator, which it looks for.
 */
function connect(
  element: HTMLIFrameElement,
  origin: string,
  options: FrameOptions,
  receive: (message: ToPage) => void,
  timeout: number,
  before?: Connection,
): Connection {
  const { promise, resolve, reject } = deferred<void>();
  let port: MessagePort | undefined;
  const fail = (problem: FrameProblem) => reject(new FrameError(problem));
  const timer = setTimeout(
    fail,
    timeout,
    problem(
      'The frame did not load. Check the URL of the frames, the public key, and that `allowed_origins` of its application contains the origin of this page.',
    ),
  );
  let cannotAsk = false;
  const notice = ({ effectiveDirective, blockedURI }: SecurityPolicyViolationEvent) => {
    if (!blockedURI.startsWith(origin)) return;
    if (effectiveDirective === 'frame-src')
      fail(problem(`The Content-Security-Policy of the page lacks ${origin} in frame-src.`));
    cannotAsk ||= effectiveDirective === 'connect-src';
  };
  document.addEventListener('securitypolicyviolation', notice);
  const asking = setTimeout(async () => {
    const refusal = before ? undefined : await whyRefused(element.src);
    if (refusal !== undefined && !cannotAsk) fail(problem(refusal));
  }, 1000);
  const stop = () => {
    clearTimeout(timer);
    clearTimeout(asking);
    document.removeEventListener('securitypolicyviolation', notice);
  };
  promise.then(stop, stop);
  element.addEventListener('load', async () => {
    await before?.ready.catch(({ message }) => fail(problem(message)));
    const channel = new MessageChannel();
    port?.close();
    port = channel.port1;
    port.onmessage = ({ data }: MessageEvent<ToPage>) => {
      if (data.kind === 'ready') resolve();
      else if (data.kind === 'failed') fail(data.problem);
      else if (data.kind === 'height') element.style.height = `${data.height}px`;
      else receive(data);
    };
    element.contentWindow?.postMessage({ protocol, options }, origin, [channel.port2]);
  });
  return {
    element,
    ready: promise,
    send: (message) => void promise.then(() => port?.postMessage(message)),
    remove: () => {
      fail(problem('The frame was removed.'));
      port?.close();
      element.remove();
    },
  };
}

/** A page cannot see why a frame did not load, but the service tells its script. Undefined if the frame would load. */
async function whyRefused(url: string): Promise<string | undefined> {
  try {
    const response = await fetch(url, { credentials: 'omit' });
    if (response.ok) return undefined;
    const { detail } = await response.json().catch(() => ({}));
    return `The frame was refused: ${detail ?? `status ${response.status}`}`;
  } catch {
    // A browser reports that the policy of the page forbids the request after the request has failed.
    await new Promise((resolve) => setTimeout(resolve, 100));
    return `No frames can be reached at ${new URL(url).origin}.`;
  }
}

interface Handlers<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
}

/** Like `Promise.withResolvers`, which older browsers lack. */
function deferred<T>(): Handlers<T> & { readonly promise: Promise<T> } {
  let handlers: Handlers<T> = { resolve: () => {}, reject: () => {} };
  const promise = new Promise<T>((resolve, reject) => {
    handlers = { resolve, reject };
  });
  return { promise, ...handlers };
}

function problem(message: string): FrameProblem {
  return { code: 'frame_failed', message };
}

/** The expiry in the result of `authorize`. Throws if the result is the response of a backend that refused. */
function expiryOf(result: unknown): string | undefined {
  const { status, headers, expiresAt } = (result ?? {}) as Partial<Response & { expiresAt: unknown }>;
  const isResponse = typeof status === 'number' && typeof headers?.get === 'function';
  if (isResponse && (status < 200 || status > 299))
    throw new Error(`the session was not authorized: your backend answered with status ${status}`);
  const given = isResponse ? headers.get('SVC-SESSION-EXPIRES-AT') : expiresAt;
  return given ? new Date(given as string).toISOString() : undefined;
}

/** Without the fields that are undefined. */
function defined<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}
