/** Collects a card in frames, and shows it in a frame. */
import { createForm, type FieldState, type FrameError } from '../../sdk/src/frames.ts';
import { byId, showLog } from './panels.ts';

const settings = (await (await fetch('/settings')).json()) as {
  framesUrl: string;
  publicKey: string;
  visitedAt: string;
};

function received(what: string, value: unknown): void {
  byId('received').prepend(`${what} ${JSON.stringify(value)}\n`);
}

async function refreshLog(): Promise<void> {
  showLog(await (await fetch(`/log/${settings.visitedAt}`)).json());
}

const form = createForm({
  url: settings.framesUrl,
  publicKey: settings.publicKey,
  authorize: (nonce) => {
    received('authorize', `${nonce.slice(0, 12)}…`);
    return fetch('/sessions/authorize-card', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ nonce }),
    });
  },
});
const container = '/customers/42/';
const field = (name: string) => ({
  label: byId(`${name}-label`),
  container,
  onChange: (state: FieldState) => received(name, state),
  onEnter: save,
});
form.field('card-number', '#number', field('number'));
form.field('expiry', '#expiry', field('expiry'));
form.field('verification-code', '#code', field('code'));

async function save(): Promise<void> {
  const status = byId('status');
  try {
    const tokens = await form.submit();
    received('tokens', tokens);
    const { id, masked } = tokens.card as { id: string; masked?: { number: string } };
    status.textContent = `Stored as ${masked?.number}`;
    byId('stored').hidden = false;
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
    status.textContent = code === 'invalid_fields' ? 'Check the card.' : message;
  }
  await refreshLog();
}

byId('save').addEventListener('click', save);
await form.ready;
document.body.dataset.ready = 'yes';
