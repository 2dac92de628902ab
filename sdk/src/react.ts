/** React 18 and 19: a session of the page with hooks that read tokens, and frames as components. */
import {
  createContext,
  createElement,
  type ReactElement,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import type { Token } from './api.ts';
import {
  createForm,
  type FieldOptions,
  type FieldType,
  type Form,
  type FormOptions,
  type Frame,
  type RevealOptions,
} from './frames.ts';
import { type ManagedSession, type StartSessionOptions, startSession } from './session.ts';

/** While `session` is undefined and `error` too, the session is being started. */
export interface SessionState {
  readonly session: ManagedSession | undefined;
  readonly error: unknown;
  /** Starts a new session, for example after an error or after another user has signed in. */
  readonly restart: () => void;
}

const SessionContext = createContext<SessionState | undefined>(undefined);

export interface SallyportProviderProps extends StartSessionOptions {
  readonly children?: ReactNode;
}

/**
 * Starts a session after the first render in the browser, and stops it when the provider is removed. Does nothing while
 * rendering on a server. A change of `url` or `publicKey` starts a new session; other options are read when one starts.
 */
export function SallyportProvider({ children, ...options }: SallyportProviderProps): ReactElement {
  const latest = useRef(options);
  latest.current = options;
  const [attempt, setAttempt] = useState(0);
  const [state, setState] = useState<Omit<SessionState, 'restart'>>(starting);
  const restart = useCallback(() => setAttempt((number) => number + 1), []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `url` and `publicKey` are in `latest`, `attempt` restarts
  useEffect(() => {
    let isCurrent = true;
    let started: ManagedSession | undefined;
    setState(starting);
    startSession(latest.current).then(
      (session) => {
        // Strict mode removes the effect and runs it again: the session of the first run is not used.
        if (!isCurrent) return session.stop();
        started = session;
        setState({ session, error: undefined });
      },
      (error: unknown) => isCurrent && setState({ session: undefined, error }),
    );
    return () => {
      isCurrent = false;
      started?.stop();
    };
  }, [options.url, options.publicKey, attempt]);
  const value = useMemo(() => ({ ...state, restart }), [state, restart]);
  return createElement(SessionContext.Provider, { value }, children);
}

const starting = { session: undefined, error: undefined } as const;

/** The session of the nearest provider. Throws without one. */
export function useSession(): SessionState {
  const state = useContext(SessionContext);
  if (!state) throw new Error('useSession needs a SallyportProvider above it');
  return state;
}

export interface UseTokenOptions {
  /** Why the token is read, for rules with `require_purpose` and for the audit log. */
  readonly purpose?: string;
  /** Return less of the data than the rules allow. */
  readonly transform?: 'mask' | 'redact';
  /** False to read nothing. */
  readonly enabled?: boolean;
}

export interface TokenState {
  /** Undefined until the token was read. A change of the arguments removes it immediately. */
  readonly token: Token | undefined;
  readonly error: unknown;
  /** Reads the token again. */
  readonly reload: () => void;
}

interface ReadToken {
  readonly session: ManagedSession;
  readonly name: string;
  readonly token?: Token;
  readonly error?: unknown;
}

/** Reads a token with the session of the page, through its access rules. */
export function useToken(id: string, options: UseTokenOptions = {}): TokenState {
  const { purpose, transform, enabled = true } = options;
  const { session, error: sessionError } = useSession();
  const [attempt, setAttempt] = useState(0);
  const [read, setRead] = useState<ReadToken>();
  const reload = useCallback(() => setAttempt((number) => number + 1), []);
  const name = JSON.stringify([id, purpose, transform, enabled]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `name` has all arguments, `attempt` reads again
  useEffect(() => {
    if (!session || !enabled) return;
    const abort = new AbortController();
    const given = {
      signal: abort.signal,
      ...(purpose !== undefined && { purpose }),
      ...(transform && { transform }),
    };
    session.client.tokens.get(id, given).then(
      (token) => !abort.signal.aborted && setRead({ session, name, token }),
      (error: unknown) => !abort.signal.aborted && setRead({ session, name, error }),
    );
    return () => abort.abort();
  }, [session, name, attempt]);
  // Data of other arguments or of another session is never returned.
  const isSame = session !== undefined && read?.session === session && read.name === name;
  return {
    token: isSame ? read.token : undefined,
    error: isSame ? read.error : sessionError,
    reload,
  };
}

export interface RevealProps {
  /** The id of the token. */
  readonly id: string;
  /** Why the data is revealed. */
  readonly purpose: string;
  /** The text of the button. */
  readonly label?: ReactNode;
  /** Renders the data. By default text is shown unchanged, and other data as JSON. */
  readonly children?: (data: unknown) => ReactNode;
}

/** Shows the masked data of a token with a button that reveals it for a purpose, and hides it again. */
export function Reveal({ id, purpose, label = 'Reveal', children = asText }: RevealProps): ReactElement {
  const [isRevealed, setRevealed] = useState(false);
  const masked = useToken(id, { transform: 'mask' });
  const revealed = useToken(id, { purpose, enabled: isRevealed });
  const { token, error } = isRevealed ? revealed : masked;
  const data = token ?? (isRevealed && error === undefined ? masked.token : undefined);
  return createElement(
    'span',
    { 'aria-busy': token === undefined && error === undefined },
    error === undefined
      ? data && createElement('span', null, children(data.data))
      : createElement('span', { role: 'alert' }, messageOf(error)),
    ' ',
    createElement(
      'button',
      { type: 'button', 'aria-pressed': isRevealed, onClick: () => setRevealed(!isRevealed) },
      label,
    ),
  );
}

function asText(data: unknown): string {
  return typeof data === 'string' ? data : (JSON.stringify(data) ?? '');
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const FormContext = createContext<Form | undefined>(undefined);

export type FrameFormProps = FormOptions & { readonly children?: ReactNode };

/**
 * A form with fields in frames, which are removed with it. A change of `url` or `publicKey` starts a new form; other
 * options are read when one starts.
 */
export function FrameForm({ children, ...options }: FrameFormProps): ReactElement {
  const latest = useRef(options);
  latest.current = options;
  const [form, setForm] = useState<Form>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: `url` and `publicKey` are in `latest`
  useEffect(() => {
    const opened = createForm({ ...latest.current, authorize: (nonce) => latest.current.authorize(nonce) });
    setForm(opened);
    return () => opened.remove();
  }, [String(options.url), options.publicKey]);
  return createElement(FormContext.Provider, { value: form }, children);
}

/** The form of the nearest `FrameForm`, for `submit`. Undefined until it is open. */
export function useFrameForm(): Form | undefined {
  return useContext(FormContext);
}

interface Placed {
  readonly label: string;
  /** The class of the element that contains the frame. */
  readonly className?: string;
}
export type FrameFieldProps = Omit<FieldOptions, 'label'> & Placed;
export type RevealFrameProps = Omit<RevealOptions, 'label'> & Placed;

/** If an option changes, a new frame is opened. Callbacks and the class can change. */
function useFrame<P extends Placed>(
  props: P,
  open: (form: Form, into: Element, latest: { current: P }) => Frame,
) {
  const form = useFrameForm();
  const into = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const { className, ...options } = props;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text has all options except for callbacks
  useEffect(() => {
    if (!form || !into.current) return;
    const frame = open(form, into.current, latest);
    return () => frame.remove();
  }, [form, JSON.stringify(options)]);
  return createElement('div', { ref: into, className });
}

function fieldOf(type: FieldType) {
  return (props: FrameFieldProps): ReactElement =>
    useFrame(props, (form, into, latest) =>
      form.field(type, into, {
        ...latest.current,
        onChange: (state) => latest.current.onChange?.(state),
        onEnter: () => latest.current.onEnter?.(),
      }),
    );
}

export const CardField = fieldOf('card');
export const CardNumber = fieldOf('card-number');
export const CardExpiry = fieldOf('expiry');
export const VerificationCode = fieldOf('verification-code');
export const Iban = fieldOf('iban');
export const TextField = fieldOf('text');

/** Shows the data of a token in a frame, when the user asks for it. Unlike `Reveal`, the page never has the data. */
export function RevealFrame(props: RevealFrameProps): ReactElement {
  return useFrame(props, (form, into, latest) =>
    form.reveal(into, { ...latest.current, onChange: (shown) => latest.current.onChange?.(shown) }),
  );
}
