/**
 * The hidden frame of a form. It holds the bound session, collects the values of the fields, and creates tokens of them.
 * The page gets the ids and the masked values.
 */
import type {
  CardBrand,
  CollectedToken,
  FrameProblem,
  InputType,
  ToFrame,
} from '../../sdk/src/frame-messages.ts';
import { ConnectionError, type ManagedSession, ProblemError, startSession } from '../../sdk/src/sallyport.ts';
import { applicationKey, type Joined, onJoin, onPage, type Page } from './channel.ts';

/** The data of a field. The fields of a card are objects, which are merged. */
export type FieldData = string | Readonly<Record<string, string>>;

/** The data of the inputs in a frame. */
export type Collected = Partial<Record<InputType, FieldData>>;

/** The field answers `collect` on the port that comes with it: its data, or undefined if its value is not valid. */
export type ToField = { readonly kind: 'brand'; readonly brand: CardBrand } | { readonly kind: 'collect' };

/** The coordinator answers `read` on the port that comes with it, with a `ReadReply`. */
export type ToCoordinator =
  | { readonly kind: 'brand'; readonly brand: CardBrand }
  | { readonly kind: 'read'; readonly token: string; readonly purpose?: string };

/** Without `data` if the session's rules do not show it. */
export interface ReadReply {
  readonly data?: unknown;
  readonly problem?: FrameProblem;
}

interface TokenType {
  /** The name of the token in the result. */
  readonly name: string;
  readonly type: string;
  /** Seconds until the token expires, and how often it can be used. */
  readonly lifetime?: number;
  readonly max_uses?: number;
  readonly mask?: (data: FieldData) => { readonly template: unknown; readonly masked: unknown };
}

/** Mask, lifetime and name of tokens are fixed. The page chooses none of them. */
const card: TokenType = {
  name: 'card',
  type: 'card',
  mask: (data) => {
    const { number = '', ...expiry } = data as Record<string, string>;
    const shown = Object.keys(expiry).map((name) => [name, `{{ data.${name} }}`]);
    return {
      template: { number: '{{ data.number | reveal_last: 4 }}', ...Object.fromEntries(shown) },
      masked: { number: lastFour(number), ...expiry },
    };
  },
};
const tokenTypes: Readonly<Record<InputType, TokenType>> = {
  'card-number': card,
  expiry: card,
  'verification-code': {
    name: 'verification_code',
    type: 'card_verification_code',
    lifetime: 900,
    max_uses: 1,
  },
  iban: {
    name: 'iban',
    type: 'iban',
    mask: (data) => ({ template: '{{ data | reveal_last: 4 }}', masked: lastFour(String(data)) }),
  },
  text: { name: 'text', type: 'text' },
};

/** The same result as `reveal_last: 4` of the service. */
function lastFour(text: string): string {
  return 'X'.repeat(Math.max(0, text.length - 4)) + text.slice(-4);
}

class Problem extends Error {
  readonly problem: FrameProblem;
  /** The fields that are empty or not valid. */
  readonly fields: readonly number[];
  constructor(problem: FrameProblem, fields: readonly number[] = []) {
    super(problem.message);
    this.problem = problem;
    this.fields = fields;
  }
}

const fields = new Set<Joined>();
let brand: CardBrand = 'unknown';

onJoin((frame) => {
  for (const other of fields) if (other.window === frame.window || isGone(other)) fields.delete(other);
  frame.port.onmessage = ({ data, ports: [reply] }: MessageEvent<ToCoordinator>) => {
    if (data.kind === 'brand' && (frame.type === 'card-number' || frame.type === 'card')) {
      brand = data.brand;
      for (const { port } of fields) port.postMessage({ kind: 'brand', brand } satisfies ToField);
    }
    if (data.kind === 'read' && frame.type === 'reveal' && reply) void read(data, reply);
  };
  if (frame.type !== 'card' && !Object.hasOwn(tokenTypes, frame.type)) return;
  fields.add(frame);
  frame.port.postMessage({ kind: 'brand', brand } satisfies ToField);
});

/** Removed from the page. Its port would never answer. */
function isGone({ window }: Joined): boolean {
  return window.closed || window.parent !== parent;
}

let page: Page | undefined;
let session: Promise<ManagedSession> | undefined;
const authorizations = new Map<number, (message: Extract<ToFrame, { kind: 'authorized' }>) => void>();

onPage((connected) => {
  page = connected;
  page.send({ kind: 'ready' });
  return (message) => {
    if (message.kind === 'authorized') authorizations.get(message.id)?.(message);
    if (message.kind === 'submit') void submit(connected, message.id, message.containers);
  };
});

async function submit(to: Page, id: number, containers: Readonly<Record<string, unknown>>): Promise<void> {
  try {
    const tokens = await createAll(await collect(), containers);
    to.send({ kind: 'collected', id, tokens });
  } catch (error) {
    const fields = error instanceof Problem ? error.fields : [];
    to.send({ kind: 'rejected', id, problem: problemOf(error), fields });
  }
}

/** Asks every field for its value, and puts the values of a card together. */
async function collect(): Promise<Map<string, TokenType & { readonly data: FieldData }>> {
  const open = [...fields].filter((field) => !isGone(field));
  const values = await Promise.all(open.map(valueIn));
  const wrong = open.filter((_, index) => values[index] === undefined);
  if (wrong.length > 0)
    throw invalid(
      'A field is empty or not valid.',
      wrong.map(({ index }) => index),
    );
  const tokens = new Map<string, TokenType & { readonly data: FieldData }>();
  const inputs = open.flatMap((field, index) =>
    Object.entries(values[index] ?? {}).map(([type, data]) => ({ field, type: type as InputType, data })),
  );
  // Sorted, so that the number of a card is its first entry.
  for (const { field, type: input, data } of inputs.sort((a, b) => a.type.localeCompare(b.type))) {
    const type = tokenTypes[input];
    const name = input === 'text' ? field.name : type.name;
    const earlier = tokens.get(name);
    if (
      earlier &&
      (typeof data === 'string' || Object.keys(data).some((part) => part in Object(earlier.data)))
    )
      throw invalid(`Two fields of the form have the name ${name}.`);
    tokens.set(name, { ...type, data: earlier ? { ...Object(earlier.data), ...Object(data) } : data });
  }
  const collected = tokens.get('card')?.data;
  if (typeof collected === 'object' && !('number' in collected))
    throw invalid('The form has no card number.');
  if (open.length === 0) throw invalid('The form has no fields.');
  return tokens;
}

function invalid(message: string, fields: readonly number[] = []): Problem {
  return new Problem({ code: 'invalid_fields', message }, fields);
}

/** Milliseconds in which a field of this browser answers, unless it has crashed. */
const fieldTimeout = 10_000;

function valueIn({ port }: Joined): Promise<Collected | undefined> {
  return new Promise((resolve, reject) => {
    const { port1, port2 } = new MessageChannel();
    const noAnswer = new Problem({ code: 'frame_failed', message: 'A field does not answer.' });
    const timer = setTimeout(reject, fieldTimeout, noAnswer);
    port1.onmessage = ({ data }) => {
      clearTimeout(timer);
      port1.close();
      resolve(data);
    };
    port.postMessage({ kind: 'collect' } satisfies ToField, [port2]);
  });
}

/** Changes after every submission that succeeded. */
let salt = crypto.randomUUID();

/** Creates the tokens one after another. A repetition after a failure does not create a token twice. */
async function createAll(
  collected: Awaited<ReturnType<typeof collect>>,
  containers: Readonly<Record<string, unknown>>,
): Promise<Record<string, CollectedToken>> {
  const { client } = await openSession();
  const created: Record<string, CollectedToken> = {};
  for (const [name, { type, data, mask, lifetime, max_uses }] of collected) {
    const masking = mask?.(data);
    const body = {
      type,
      data,
      ...(Object.hasOwn(containers, name) && { container: String(containers[name]) }),
      ...(masking && { mask: masking.template }),
      ...(lifetime !== undefined && { expires_at: inSeconds(lifetime) }),
      ...(max_uses !== undefined && { max_uses }),
    };
    const options = { idempotencyKey: await hash(salt + JSON.stringify(body)) };
    const token = await client.tokens.create(body as Parameters<typeof client.tokens.create>[0], options);
    const { id, container } = token;
    // The reply has the plaintext if the rules reveal it, so the page never gets any part of it.
    const isShown = masking !== undefined && 'data' in token;
    created[name] = { id, type, container, ...(isShown && { masked: masking.masked }) };
  }
  salt = crypto.randomUUID();
  return created;
}

async function hash(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Milliseconds by which the clock of the service is ahead of that of the browser. */
let clockOffset = 0;

/** In whole minutes, so that a repetition within the same minute has the same text. */
function inSeconds(seconds: number): string {
  const minutes = Math.ceil((Date.now() + clockOffset + seconds * 1000) / 60_000);
  return new Date(minutes * 60_000).toISOString();
}

/** The session of this form. It is started when it is first needed, and renewed when it has ended. */
function openSession(): Promise<ManagedSession> {
  session ??= start().catch((error) => {
    session = undefined;
    throw error;
  });
  return session;
}

function start(): Promise<ManagedSession> {
  const ancestor = page?.origin ?? '';
  const send = async (url: string, init: RequestInit & { headers?: Record<string, string> }) => {
    const headers = { ...init.headers, 'SVC-FRAME-ANCESTOR': ancestor };
    const response = await fetch(url, { ...init, headers, credentials: 'omit' });
    const date = Date.parse(response.headers.get('Date') ?? '');
    if (date) clockOffset = date - Date.now();
    return response;
  };
  return startSession({
    url: self.origin,
    publicKey: applicationKey(),
    bind: true,
    authorize,
    fetch: send as typeof fetch,
  });
}

let lastAuthorization = 0;

/** Asks the page to have the session authorized by its backend. */
function authorize(nonce: string): Promise<unknown> {
  lastAuthorization += 1;
  const id = lastAuthorization;
  return new Promise((resolve, reject) => {
    authorizations.set(id, ({ expiresAt, error }) => {
      authorizations.delete(id);
      if (error === undefined) resolve({ expiresAt: typeof expiresAt === 'string' ? expiresAt : undefined });
      else reject(new Problem({ code: 'not_authorized', message: String(error).slice(0, 500) }));
    });
    page?.send({ kind: 'authorize', id, nonce });
  });
}

/** Reads a token for a reveal frame. The page gets nothing. */
async function read(
  { token, purpose }: Extract<ToCoordinator, { kind: 'read' }>,
  reply: MessagePort,
): Promise<void> {
  let answer: ReadReply;
  try {
    const { client } = await openSession();
    const { data } = await client.tokens.get(token, purpose === undefined ? {} : { purpose });
    answer = { data };
  } catch (error) {
    answer = { problem: problemOf(error) };
  }
  reply.postMessage(answer);
}

/** The part of an error that the page may know. The audit log has details of API errors, by the request id. */
function problemOf(error: unknown): FrameProblem {
  for (let each = error; each instanceof Error; each = each.cause) {
    if (each instanceof Problem) return each.problem;
    if (each instanceof ConnectionError)
      return { code: 'connection_failed', message: 'The service cannot be reached.' };
    if (each instanceof ProblemError) {
      const { code, status, problem } = each;
      const message = `The service answered ${status} (${code}).`;
      return { code, message, requestId: problem.request_id };
    }
  }
  return { code: 'frame_failed', message: 'The frame failed.' };
}
