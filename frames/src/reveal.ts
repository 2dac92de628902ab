/** Shows the data of one token when the user asks for it, and hides it again after some seconds. */
import type { RevealTexts } from '../../sdk/src/frame-messages.ts';
import { adoptPage, create, joinCoordinator, onPage, type Page, reportHeight, shortText } from './channel.ts';
import type { ReadReply, ToCoordinator } from './coordinator.ts';
import { applyStyle } from './styles.ts';
import { textsOf } from './texts.ts';

/**
 * Wrong codes in the life of a frame, after which nothing can be copied. Copying needs a code that only someone who sees
 * the frame can type: a mask of the page hides it from the user, but not from the browser's visibility.
 */
const maxWrong = 3;

onPage((page) => {
  const port = joinCoordinator(page);
  if (!port) return undefined;
  const focus = openReveal(page, port);
  page.send({ kind: 'ready' });
  return ({ kind }) => {
    if (kind === 'focus') focus();
  };
});

function openReveal(page: Page, port: MessagePort): () => void {
  const { options } = page;
  const texts = textsOf(options.lang);
  const text = (name: keyof RevealTexts) => shortText(options.texts?.[name], texts[name]);
  const seconds = Math.min(Math.max(Number(options.seconds ?? 30) || 30, 5), 120);
  const isSeen = watchVisibility();
  let timer: ReturnType<typeof setTimeout> | undefined;

  const output = create('output', { className: 'styled', ariaLabel: shortText(options.label), tabIndex: 0 });
  const toggle = create('button', { type: 'button', textContent: text('show') });
  const prompt = create('label', { className: 'prompt', htmlFor: 'code', hidden: true });
  const code = create('input', { id: 'code', inputMode: 'numeric', autocomplete: 'off', hidden: true });
  const words = create('span', {});
  prompt.append(words);
  let expected = '';
  let wrong = 0;
  /** The value that is copied when the code was typed. */
  let chosen: { readonly value: string; readonly button: HTMLButtonElement } | undefined;
  const status = create('p', { className: 'hidden', role: 'status' });

  /** Shows a code in place of the data, or the data again if it is empty. */
  function ask(shown: string): void {
    expected = shown;
    words.textContent = `${text('copy')} ${shown}`;
    code.value = '';
    prompt.hidden = code.hidden = shown === '';
    output.hidden = toggle.hidden = shown !== '';
    // A mask of the page cannot cut out the code alone, because its place changes.
    const free = Math.max(prompt.clientWidth - words.offsetWidth, 1);
    prompt.style.textIndent = `${randomBelow(free)}px`;
  }

  function hide(): void {
    clearTimeout(timer);
    timer = undefined;
    ask('');
    output.textContent = '';
    chosen = undefined;
    toggle.textContent = text('show');
    page.send({ kind: 'shown', shown: false });
  }

  /** A click on a value copies it. */
  function valueButton(value: unknown): HTMLElement {
    const shown = asText(value);
    if (wrong >= maxWrong) return create('span', { className: 'value', textContent: shown });
    const button = create('button', { type: 'button', className: 'value', textContent: shown });
    button.title = text('copy');
    button.addEventListener('click', async (event) => {
      if (!event.isTrusted || !(await isSeen()) || timer === undefined) return;
      chosen = { value: String(value), button };
      ask(String(100 + randomBelow(900)));
      code.focus();
    });
    return button;
  }

  async function show(): Promise<void> {
    const { data, problem } = await readToken(port, shortText(options.token), options.purpose);
    if (data === undefined) {
      const isDenied = problem === undefined || problem.code === 'permission_missing';
      output.textContent = text(isDenied ? 'denied' : 'failed');
      status.textContent = output.textContent;
      return;
    }
    status.textContent = '';
    const values = typeof data === 'object' && data !== null ? Object.values(data) : [data];
    output.replaceChildren(...values.map(valueButton));
    // As small as it must be to fit: the height of the frame never depends on the data.
    output.style.fontSize = '';
    for (let size = 16; size >= 10 && output.scrollHeight > output.clientHeight; size--)
      output.style.fontSize = `${size}px`;
    toggle.textContent = text('hide');
    timer = setTimeout(hide, seconds * 1000);
    page.send({ kind: 'shown', shown: true });
  }

  // The page cannot click, but it can cover the frame so that the user clicks without seeing it.
  toggle.addEventListener('click', async (event) => {
    if (timer !== undefined) return hide();
    if (!event.isTrusted || toggle.ariaBusy === 'true') return;
    toggle.ariaBusy = 'true';
    if (await isSeen()) await show();
    toggle.ariaBusy = 'false';
  });
  code.addEventListener('input', async (event) => {
    if (!event.isTrusted || expected === '' || code.value.length < expected.length) return;
    const isRight = code.value === expected;
    ask('');
    if (!isRight) status.textContent = text('failed');
    if (!isRight && ++wrong >= maxWrong) hide();
    const copied = chosen;
    (copied?.button ?? toggle).focus();
    if (!isRight || !copied || !(await isSeen()) || timer === undefined) return;
    await navigator.clipboard.writeText(copied.value);
    copied.button.title = text('copied');
    status.textContent = text('copied');
  });
  document.addEventListener('visibilitychange', () => {
    if (document.hidden && timer !== undefined) hide();
  });

  adoptPage(options);
  applyStyle(options.style);
  document.title = shortText(options.label);
  const line = create('div', { className: 'reveal' });
  line.append(output, prompt, code, toggle, status);
  document.body.append(line);
  reportHeight(line, page);
  return () => toggle.focus();
}

function readToken(port: MessagePort, token: string, purpose: unknown): Promise<ReadReply> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => {
      port1.close();
      resolve(data);
    };
    const message: ToCoordinator = {
      kind: 'read',
      token,
      ...(typeof purpose === 'string' && purpose !== '' && { purpose: shortText(purpose) }),
    };
    port.postMessage(message, [port2]);
  });
}

/** Not quite uniform, which does not matter for numbers below 1,000. */
function randomBelow(limit: number): number {
  return (crypto.getRandomValues(new Uint32Array(1))[0] as number) % limit;
}

/** Shows the numbers of cards and accounts in groups, in which a line can break. */
function asText(data: unknown): string {
  if (typeof data === 'object' && data !== null) return Object.values(data).map(asText).join(' · ');
  const text = String(data);
  return /^(\d{12,19}|[A-Z]{2}\d{2}[A-Z0-9]{11,30})$/.test(text) ? text.replace(/(.{4})(?=.)/g, '$1 ') : text;
}

/** Milliseconds for which the frame must have been visible before a click counts. */
const visibleFor = 500;

const visibilityOptions = { threshold: 1, trackVisibility: true, delay: 100 } as IntersectionObserverInit;

/**
 * Whether the frame is not covered, transparent or out of view. Browsers without `trackVisibility` only know whether it
 * is in view.
 */
function isVisible(entries: IntersectionObserverEntry[]): boolean {
  const entry = entries.at(-1) as IntersectionObserverEntry & { isVisible?: boolean };
  return entry.isIntersecting && (entry.isVisible ?? true);
}

/** Returns a function that tells whether the frame is visible, and has been for some time. */
function watchVisibility(): () => Promise<boolean> {
  let since = Number.POSITIVE_INFINITY;
  new IntersectionObserver((entries) => {
    since = isVisible(entries) ? Math.min(since, performance.now()) : Number.POSITIVE_INFINITY;
  }, visibilityOptions).observe(document.documentElement);
  return async () => {
    // An observer is called late, but a new one is called immediately.
    const isNow = await new Promise<boolean>((resolve) => {
      const observer = new IntersectionObserver((entries) => {
        observer.disconnect();
        resolve(isVisible(entries));
      }, visibilityOptions);
      observer.observe(document.documentElement);
    });
    return isNow && performance.now() - since >= visibleFor;
  };
}
