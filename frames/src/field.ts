/** An input field. It hands its value to the coordinator, and tells the page only its state. */
import type {
  CardBrand,
  FieldErrorCode,
  FieldState,
  FieldType,
  FrameOptions,
  InputType,
} from '../../sdk/src/frame-messages.ts';
import {
  adoptPage,
  create,
  frameType,
  joinCoordinator,
  onPage,
  type Page,
  reportHeight,
  shortText,
} from './channel.ts';
import type { ToCoordinator, ToField } from './coordinator.ts';
import { brandName, type Check, formatOf } from './formats.ts';
import { applyStyle } from './styles.ts';
import { textsOf } from './texts.ts';

onPage((page) => {
  const port = joinCoordinator(page, shortText(page.options.name, 'text'));
  if (!port) return undefined;
  const field = openField(page, port);
  page.send({ kind: 'ready' });
  return ({ kind }) => {
    if (kind === 'focus') field.focus();
    if (kind === 'clear') field.clear();
  };
});

/** Digits after which the brand of a number no longer changes. */
const brandDigits = 6;

function openField(page: Page, port: MessagePort) {
  const { options } = page;
  const type = frameType as FieldType;
  const types: readonly InputType[] =
    type === 'card' ? ['card-number', 'expiry', 'verification-code'] : [type];
  const tell = (message: ToCoordinator) => port.postMessage(message);
  let brand: CardBrand = 'unknown';
  let sent = '';

  const inputs = types.map((each) => openInput(each, options, () => brand, update));
  const [first] = inputs as [Input];

  function update(): void {
    if (types[0] === 'card-number') brand = brandName(first.value());
    const checks = inputs.map(({ check }) => check());
    const error = inputs.map((input) => input.showError()).find((each) => each !== undefined);
    const state: FieldState = {
      focused: inputs.some(({ input }) => document.activeElement === input) && document.hasFocus(),
      empty: checks.every((check) => check === 'empty'),
      valid: checks.every((check) => ['empty', 'incomplete', 'valid'].includes(check)),
      complete: checks.every((check) => check === 'valid'),
      ...(types[0] === 'card-number' && { brand }),
      ...(error && { error }),
    };
    if (JSON.stringify(state) === sent) return;
    sent = JSON.stringify(state);
    page.send({ kind: 'state', state });
    if (state.brand) tell({ kind: 'brand', brand: state.brand });
  }

  const form = create('form', { noValidate: true, className: inputs.length > 1 ? 'card' : '' });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    page.send({ kind: 'enter' });
  });
  // Enter would press the button, of which a form with several inputs needs one.
  const send = create('button', { hidden: true });
  port.onmessage = ({ data, ports: [reply] }: MessageEvent<ToField>) => {
    if (data.kind === 'brand') brand = data.brand;
    if (data.kind === 'collect') {
      for (const input of inputs) input.touch();
      const isValid = inputs.every(({ check }) => check() === 'valid');
      reply?.postMessage(
        isValid ? Object.fromEntries(inputs.map((each) => [each.type, each.data()])) : undefined,
      );
    }
    update();
  };
  for (const [at, { input }] of inputs.entries()) {
    input.addEventListener('input', (event) => {
      const isTyped = event instanceof InputEvent && !event.inputType.startsWith('delete');
      if (isTyped && inputs[at]?.isFull()) inputs[at + 1]?.input.focus();
    });
    input.addEventListener('keydown', ({ key }) => {
      if (key === 'Backspace' && input.value === '') inputs[at - 1]?.input.focus();
    });
  }

  adoptPage(options);
  applyStyle(options.style);
  document.title = shortText(options.label, type);
  form.append(...inputs.map(({ cell }) => cell), send);
  document.body.append(form);
  reportHeight(form, page);
  update();
  return {
    focus: () => (inputs.find(({ input }) => input.ariaInvalid === 'true') ?? first).input.focus(),
    clear: () => {
      for (const input of inputs) input.clear();
    },
  };
}

type Input = ReturnType<typeof openInput>;

function openInput(type: InputType, options: FrameOptions, brandOfForm: () => CardBrand, update: () => void) {
  const isPart = frameType === 'card';
  const format = formatOf(type, options.format);
  const texts = textsOf(options.lang);
  let clean = '';
  /** Whether the user has left the field, or submitted the form: from then on, an incomplete input is an error. */
  let isTouched = false;

  const error = create('p', { id: isPart ? `${type}-error` : 'error', className: 'hidden' });
  const label = shortText(options.label, type);
  const input = create('input', {
    id: isPart ? type : 'field',
    className: `field styled${format.isNumber ? ' number' : ''}`,
    name: format.autocomplete === 'off' ? type : format.autocomplete,
    inputMode: format.inputmode,
    placeholder: shortText(
      isPart ? undefined : options.placeholder,
      type === 'expiry' ? texts.expiry : format.placeholder,
    ),
    spellcheck: false,
    ariaLabel: isPart ? `${label}: ${texts[type === 'expiry' ? 'date' : (type as 'card-number')]}` : label,
    autocapitalize: 'off',
  });
  input.setAttribute('autocomplete', format.autocomplete);
  input.setAttribute('autocorrect', 'off');
  input.setAttribute('aria-describedby', error.id);
  const badge = create('span', { className: 'brand', ariaHidden: 'true' });
  const cell = create('div', { className: 'cell' });
  cell.append(input, badge, error);

  function check(): Check {
    const checked = format.check(clean, brandOfForm());
    const isKnown = checked === 'valid' || clean.length >= brandDigits;
    const { accept } = options;
    const isRefused = type === 'card-number' && Array.isArray(accept) && !accept.includes(brandName(clean));
    return isKnown && isRefused ? 'not_accepted' : checked;
  }

  function errorOf(checked: Check): FieldErrorCode | undefined {
    if (checked === 'valid' || (!isTouched && (checked === 'empty' || checked === 'incomplete')))
      return undefined;
    return checked === 'empty' ? 'required' : checked;
  }

  function showError(): FieldState['error'] {
    const code = errorOf(check());
    const message = code === undefined ? '' : shortText(options.errors?.[code], texts[code]);
    input.ariaInvalid = String(code !== undefined);
    error.textContent = message;
    badge.textContent = type === 'card-number' ? brandBadges[brandName(clean)] : '';
    return code && { code, message };
  }

  /** Formats the text again, with the caret behind the same character of the value. */
  function reformat(event?: Event): void {
    if (event instanceof InputEvent && event.isComposing) return;
    const caret = input.selectionStart ?? input.value.length;
    let before = format.clean(input.value.slice(0, caret)).length;
    let next = format.clean(input.value);
    const deletes = event instanceof InputEvent && event.inputType === 'deleteContentBackward';
    // Only a separator was deleted, which would come back: delete the character before it, too.
    if (deletes && next === clean && before > 0 && input.value !== format.show(next)) {
      next = next.slice(0, before - 1) + next.slice(before);
      before -= 1;
    }
    clean = next;
    const shown =
      deletes && before === clean.length ? format.show(clean).replace(/\W+$/, '') : format.show(clean);
    if (input.value !== shown) {
      input.value = shown;
      const end = before === clean.length ? shown.length : caretAfter(shown, before);
      input.setSelectionRange(end, end);
    }
    update();
  }

  /** The position in the shown text behind this many characters of the value. */
  function caretAfter(shown: string, count: number): number {
    let at = 0;
    while (at < shown.length && format.clean(shown.slice(0, at)).length < count) at++;
    return at;
  }

  input.addEventListener('input', reformat);
  input.addEventListener('change', reformat);
  input.addEventListener('compositionend', () => reformat());
  input.addEventListener('focus', update);
  input.addEventListener('blur', () => {
    isTouched = clean !== '';
    update();
  });
  return {
    type,
    input,
    cell,
    check,
    showError,
    value: () => clean,
    data: () => format.data(clean),
    /** Whether nothing usual can follow. */
    isFull: () =>
      check() === 'valid' && (type !== 'card-number' || clean.length >= 16 || brandName(clean) === 'amex'),
    touch: () => {
      isTouched = true;
    },
    clear: () => {
      input.value = '';
      isTouched = false;
      reformat();
    },
  };
}

const brandBadges: Readonly<Record<CardBrand, string>> = {
  visa: 'Visa',
  mastercard: 'MC',
  amex: 'Amex',
  discover: 'Discover',
  diners: 'Diners',
  jcb: 'JCB',
  unionpay: 'UnionPay',
  maestro: 'Maestro',
  unknown: '',
};
