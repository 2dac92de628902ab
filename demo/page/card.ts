/** Collects a card in frames, shows it in a frame, and has it charged. */
import { type CollectedToken, createForm, type FieldState, type FrameError } from '../../sdk/src/frames.ts';
import { type RecordedRequest, recordingFetch } from '../recording-fetch.ts';
import { byId, element, showLog } from './panels.ts';

const settings = (await (await fetch('/settings')).json()) as {
  framesUrl: string;
  publicKey: string;
  canCharge: boolean;
  visitedAt: string;
};

function received(what: string, value: unknown): void {
  byId('received').prepend(`${what} ${JSON.stringify(value)}\n`);
}

// It scrolls, so it must be reachable with the keyboard.
byId('received').tabIndex = 0;
const requests = new Map<string, HTMLElement>();

/** The requests of the frames are in the audit log only: the page cannot see them. */
function showRequest({ id, from, to, method, path, body, response }: RecordedRequest): void {
  const item = requests.get(id) ?? element('li', '');
  const bodies = [body, response?.body].filter((value) => value !== undefined);
  item.replaceChildren(
    element('b', '', `${from} → ${to}: ${method} ${path} ${response?.status ?? ''}`),
    ...bodies.map((value) => element('code', '', JSON.stringify(value))),
  );
  if (!requests.has(id)) byId('requests').append(item);
  requests.set(id, item);
}

const send = recordingFetch('browser', 'backend', showRequest);
new EventSource('/exchanges').addEventListener('message', ({ data }) => showRequest(JSON.parse(data)));

async function refreshLog(): Promise<void> {
  showLog(await (await fetch(`/log/${settings.visitedAt}`)).json());
}

const form = createForm({
  url: settings.framesUrl,
  publicKey: settings.publicKey,
  authorize: (nonce) => {
    received('authorize', `${nonce.slice(0, 12)}…`);
    return send('/sessions/authorize-card', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ nonce }),
    });
  },
});
const container = '/customers/42/';
const field = (name: string) => {
  const error = element('small', 'field-error');
  byId(name).after(error);
  return {
    label: byId(`${name}-label`),
    container,
    onChange: (state: FieldState) => {
      received(name, state);
      error.textContent = state.error?.message ?? '';
    },
    onEnter: save,
  };
};
form.field('card-number', '#number', field('number'));
form.field('expiry', '#expiry', field('expiry'));
form.field('verification-code', '#code', field('code'));

let tokens: Record<string, CollectedToken> = {};

async function save(): Promise<void> {
  const status = byId('status');
  try {
    tokens = await form.submit();
    received('tokens', tokens);
    const { id, masked } = tokens.card as { id: string; masked?: { number: string } };
    status.textContent = `Stored as ${masked?.number}`;
    byId('stored').hidden = false;
    byId<HTMLButtonElement>('charge').disabled = !settings.canCharge;
    byId('charged').textContent = settings.canCharge ? '' : 'Install openssl to charge the card.';
    byId('revealed').replaceChildren();
    form.reveal('#revealed', {
      token: id,
      label: 'Stored card',
      purpose: 'demo',
      onChange: (shown) => {
        received('shown', shown);
        void refreshLog();
      },
    });
  } catch (error) {
    const { code, message } = error as FrameError;
    status.textContent = code === 'invalid_fields' ? '' : message;
  }
  await refreshLog();
}

/** The verification code works once, so a card is charged once. */
async function charge(): Promise<void> {
  byId<HTMLButtonElement>('charge').disabled = true;
  const reply = await send('/charge', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ card: tokens.card?.id, code: tokens.verification_code?.id }),
  });
  const { status, id, detail } = await reply.json();
  byId('charged').textContent = reply.ok ? `${id} ${status}` : detail;
  await refreshLog();
}

byId('charge').addEventListener('click', charge);
byId('save').addEventListener('click', save);
await form.ready;
document.body.dataset.ready = 'yes';
