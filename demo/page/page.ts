/** The page's buttons and their requests. */
import { ProblemError, Sallyport, type SessionCreated } from '../../sdk/src/sallyport.ts';
import { type RecordedRequest, recordingFetch, shortenSecrets } from '../recording-fetch.ts';
import { addHeading, addRequest } from './diagram.ts';
import { byId, showCard, showCountdown, showLog, showPolicy, showResult, type Transform } from './panels.ts';

interface Session extends SessionCreated {
  readonly createdAt: number;
  transform?: Transform;
}

const settings = (await (await fetch('/settings')).json()) as {
  serviceUrl: string;
  publicKey: string;
  visitedAt: string;
};
const toSallyport = recordingFetch('browser', 'sallyport', addRequest);
const toBackend = recordingFetch('browser', 'backend', addRequest);
let session: Session | undefined;
let policy: Transform = 'mask';

function sallyport(key: string): Sallyport {
  return new Sallyport({ url: settings.serviceUrl, key, fetch: toSallyport, retries: 0 });
}

async function create(): Promise<void> {
  addHeading('Create a session');
  session = { ...(await sallyport(settings.publicKey).sessions.create()), createdAt: Date.now() };
  byId('session-key').textContent = shortenSecrets(session.session_key);
  byId('nonce').textContent = shortenSecrets(session.nonce);
  showResult('session created, without access', 'done');
  hint(
    'The session has a key but no access. Send the nonce to the backend, or try to read the card first.',
    'authorize',
  );
}

async function sendNonce({ nonce }: Session): Promise<void> {
  addHeading('Authorize the session');
  if (!(await authorize(nonce))) return hint('The backend was denied. Create another session.', 'create');
  hint(`The backend authorized the session for customer 42 with ${policy}. Read the card.`, 'read');
}

async function authorize(nonce: string): Promise<boolean> {
  const response = await toBackend('/sessions/authorize', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ nonce }),
  });
  if (response.ok && session?.nonce === nonce) session.transform = policy;
  if (response.ok) showResult(`session authorized with ${policy}`, 'done');
  else showResult(`${response.status}: not authorized`, 'denied');
  return response.ok;
}

async function read({ session_key, transform }: Session): Promise<void> {
  addHeading('Read the card');
  const outcome = await get(session_key, 'card-42');
  if (outcome instanceof ProblemError) {
    const [text, next] =
      outcome.status === 401
        ? ['The session has expired. Its key is no longer valid.', 'create' as const]
        : ['Denied: the session is not authorized yet.', 'authorize' as const];
    return hint(text, next);
  }
  if (transform) showCard(transform, outcome.data);
  hint('Choose another transform and create a new session to compare, or continue.', 'read-other');
}

async function readOther({ session_key }: Session): Promise<void> {
  addHeading('Read another customer’s card');
  const outcome = await get(session_key, 'card-43');
  const denied = outcome instanceof ProblemError;
  hint(denied ? 'Denied. The response says why.' : 'This should have been denied.', 'reuse-nonce');
}

async function reuseNonce({ nonce }: Session): Promise<void> {
  addHeading('Reuse the nonce');
  const authorized = await authorize(nonce);
  hint(
    authorized
      ? 'This was the first use of the nonce: the session is authorized.'
      : 'A nonce works once. A stolen nonce is useless after that.',
    'create',
  );
}

function get(key: string, id: string) {
  return sallyport(key)
    .tokens.get(id)
    .catch((error: unknown) => {
      if (!(error instanceof ProblemError)) throw error;
      showResult(`${error.status} ${error.code}`, 'denied');
      return error;
    });
}

const buttons = ['create', 'authorize', 'read', 'read-other', 'reuse-nonce'] as const;
type Button = (typeof buttons)[number];

/** Shows an explanation and highlights the next button. */
function hint(text: string, next: Button): void {
  byId('hint').textContent = text;
  for (const name of buttons) byId<HTMLButtonElement>(name).classList.toggle('next', name === next);
}

function on(name: Button, act: (current: Session) => Promise<void>, needsSession = true): void {
  byId(name).addEventListener('click', async () => {
    if (needsSession && !session) return;
    setBusy(true);
    try {
      await act(session as Session);
    } catch (error) {
      byId('hint').textContent = `Error: ${(error as Error).message}`;
    }
    setBusy(false);
    await refreshLog();
  });
}

function setBusy(busy: boolean): void {
  for (const name of buttons)
    byId<HTMLButtonElement>(name).disabled = busy || (name !== 'create' && session === undefined);
}

async function refreshLog(): Promise<void> {
  showLog(await (await fetch(`/log/${settings.visitedAt}`)).json());
}

async function setTransform(transform?: Transform): Promise<void> {
  const change = transform && { method: 'PUT', body: JSON.stringify({ transform }) };
  const { rules, ...current } = await (await fetch('/policy', change)).json();
  policy = current.transform;
  showPolicy(policy, rules);
}

on('create', create, false);
on('authorize', sendNonce);
on('read', read);
on('read-other', readOther);
on('reuse-nonce', reuseNonce);
for (const input of document.querySelectorAll<HTMLInputElement>('input[name=transform]'))
  input.addEventListener('change', () => setTransform(input.value as Transform));
new EventSource('/exchanges').addEventListener('message', ({ data }) =>
  addRequest(JSON.parse(data) as RecordedRequest),
);
setInterval(
  () => showCountdown(session && { createdAt: session.createdAt, end: Date.parse(session.expires_at) }),
  200,
);
setInterval(refreshLog, 3000);

byId('public-key').textContent = shortenSecrets(settings.publicKey);
hint('The page creates a session with its public key. A new session has no access.', 'create');
setBusy(false);
await Promise.all([setTransform(), refreshLog()]);
document.body.dataset.ready = 'yes';
