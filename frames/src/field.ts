/** An input field. It hands its value to the coordinator, and tells the page only its state. */
import type { CardBrand, FieldErrorCode, FieldState, FieldType } from '../../sdk/src/frame-messages.ts';
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

function openField(page: Page, port: MessagePort) {
  const { options } = page;
  const type = frameType as FieldType;
  const format = formatOf(type, options.format);
  const texts = textsOf(options.lang);
  const tell = (message: ToCoordinator) => port.postMessage(message);
  let clean = '';
  let brand: CardBrand = 'unknown';
  /** Whether the user has left the field, or submitted the form: from then on, an incomplete input is an error. */
  let isTouched = false;
  let sent = '';

  const error = create('p', { id: 'error', className: 'hidden' });
  const input = create('input', {
    id: 'field',
    className: `field styled${format.isNumber ? ' number' : ''}`,
    name: format.autocomplete === 'off' ? type : format.autocomplete,
    inputMode: format.inputmode,
    placeholder: shortText(options.placeholder, type === 'expiry' ? texts.expiry : format.placeholder),
    spellcheck: false,
    ariaLabel: shortText(options.label, type),
    autocapitalize: 'off',
  });
  input.setAttribute('autocomplete', format.autocomplete);
  input.setAttribute('autocorrect', 'off');
  input.setAttribute('aria-describedby', error.id);

  /** Digits after which the brand of a number no longer changes. */
  const brandDigits = 6;

  function check(): Check {
    const checked = format.check(clean, brand);
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

  function update(): void {
    const checked = check();
    const code = errorOf(checked);
    const message = code && shortText(options.errors?.[code], texts[code]);
    input.ariaInvalid = String(code !== undefined);
    error.textContent = message ?? '';
    const state: FieldState = {
      focused: document.activeElement === input && document.hasFocus(),
      empty: checked === 'empty',
      valid: ['empty', 'incomplete', 'valid'].includes(checked),
      complete: checked === 'valid',
      ...(type === 'card-number' && { brand: brandName(clean) }),
      ...(code && message !== undefined && { error: { code, message } }),
    };
    if (JSON.stringify(state) === sent) return;
    sent = JSON.stringify(state);
    page.send({ kind: 'state', state });
    if (state.brand) tell({ kind: 'brand', brand: state.brand });
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
  const form = create('form', { noValidate: true });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    page.send({ kind: 'enter' });
  });
  port.onmessage = ({ data, ports: [reply] }: MessageEvent<ToField>) => {
    if (data.kind === 'brand') brand = data.brand;
    if (data.kind === 'collect') {
      isTouched = true;
      reply?.postMessage(check() === 'valid' ? format.data(clean) : undefined);
    }
    update();
  };

  adoptPage(options);
  applyStyle(options.style);
  document.title = shortText(options.label, type);
  form.append(input, error);
  document.body.append(form);
  reportHeight(input, page);
  update();
  return {
    focus: () => input.focus(),
    clear: () => {
      input.value = '';
      isTouched = false;
      reformat();
    },
  };
}
