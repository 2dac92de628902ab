/** The page: what each button sends, and what is known afterwards. */
import { ProblemError, Sallyport, type SessionCreated } from '../../sdk/src/sallyport.ts';
import { type Exchange, recording, shortened } from '../exchange.ts';
import { byId, showCountdown, showLog, showPolicy, showSeen, type Transform } from './parties.ts';
import { heading, play } from './wire.ts';

interface Session extends SessionCreated {
  readonly made: number;
  transform?: Transform;
}

const settings = (await (await fetch('/settings')).json()) as {
  vault: string;
  publicKey: string;
  visited: string;
};
const toVault = recording('browser', 'vault', play);
const toBackend = recording('browser', 'backend', play);
let session: Session | undefined;
let policy: Transform = 'mask';

function vault(key: string): Sallyport {
  return new Sallyport({ url: settings.vault, key, fetch: toVault, retries: 0 });
}

async function create(): Promise<void> {
  heading('The first door');
  session = { ...(await vault(settings.publicKey).sessions.create()), made: Date.now() };
  byId('session-key').textContent = shortened(session.session_key);
  byId('nonce').textContent = shortened(session.nonce);
  hint(
    'It has a key, but may do nothing. Hand the nonce to the backend, or try to read the card before.',
    'hand-over',
  );
}

async function handOver({ nonce }: Session): Promise<void> {
  heading('The second door');
  if (!(await authorize(nonce))) return hint('The backend was refused. Create another Session.', 'create');
  hint(`The backend has let the Session in, for customer 42 and as ${policy}. Read the card.`, 'read');
}

async function authorize(nonce: string): Promise<boolean> {
  const response = await toBackend('/sessions/authorize', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ nonce }),
  });
  if (response.ok && session?.nonce === nonce) session.transform = policy;
  return response.ok;
}

async function read({ session_key, transform }: Session): Promise<void> {
  heading('Reading the card');
  const outcome = await get(session_key, 'card-42');
  if (outcome instanceof ProblemError) {
    const [words, next] =
      outcome.status === 401
        ? ['The Session is over, and its key opens nothing any more.', 'create' as const]
        : ['Refused: only the first door is open. The nonce opens the second.', 'hand-over' as const];
    return hint(words, next);
  }
  if (transform) showSeen(transform, outcome.data);
  hint(
    'Choose another rule and create a new Session to see the same card differently, or go on.',
    'read-other',
  );
}

async function readOther({ session_key }: Session): Promise<void> {
  heading('Reading another customer’s card');
  const outcome = await get(session_key, 'card-43');
  const refused = outcome instanceof ProblemError;
  hint(refused ? 'Refused, and the answer says why.' : 'This should not have worked.', 'again');
}

async function again({ nonce }: Session): Promise<void> {
  heading('The nonce, once more');
  const worked = await authorize(nonce);
  hint(
    worked
      ? 'That was its first use: it opened the second door.'
      : 'A nonce works once. Whoever steals it afterwards comes too late.',
    'create',
  );
}

function get(key: string, id: string) {
  return vault(key)
    .tokens.get(id)
    .catch((error: unknown) => {
      if (error instanceof ProblemError) return error;
      throw error;
    });
}

const buttons = ['create', 'hand-over', 'read', 'read-other', 'again'] as const;
type Button = (typeof buttons)[number];

/** What to make of it, and which button would be next. */
function hint(words: string, next: Button): void {
  byId('hint').textContent = words;
  for (const name of buttons) byId<HTMLButtonElement>(name).classList.toggle('next', name === next);
}

function on(name: Button, act: (current: Session) => Promise<void>, needsSession = true): void {
  byId(name).addEventListener('click', async () => {
    if (needsSession && !session) return;
    setBusy(true);
    try {
      await act(session as Session);
    } catch (error) {
      byId('hint').textContent = `That went wrong: ${(error as Error).message}`;
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
  showLog(await (await fetch(`/log/${settings.visited}`)).json());
}

async function choose(transform?: Transform): Promise<void> {
  const change = transform && { method: 'PUT', body: JSON.stringify({ transform }) };
  const { rules, ...current } = await (await fetch('/policy', change)).json();
  policy = current.transform;
  showPolicy(policy, rules);
}

on('create', create, false);
on('hand-over', handOver);
on('read', read);
on('read-other', readOther);
on('again', again);
for (const input of document.querySelectorAll<HTMLInputElement>('input[name=transform]'))
  input.addEventListener('change', () => choose(input.value as Transform));
new EventSource('/exchanges').addEventListener('message', ({ data }) => play(JSON.parse(data) as Exchange));
setInterval(() => showCountdown(session && { made: session.made, end: Date.parse(session.expires_at) }), 200);
setInterval(refreshLog, 3000);

byId('public-key').textContent = shortened(settings.publicKey);
hint(
  'The page opens a Session with its public key. Anyone may, since a Session can do nothing by itself.',
  'create',
);
setBusy(false);
await Promise.all([choose(), refreshLog()]);
document.body.dataset.ready = 'yes';
