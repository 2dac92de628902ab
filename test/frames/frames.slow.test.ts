/** Collects and shows data in frames, in real browsers. */
import { expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Frame, Page } from 'playwright-core';
import type { createForm } from '../../sdk/src/frames.ts';
import { accessibilityViolations } from '../support/console-tab.ts';
import { cardFields, cardNumber, describeFrames, numberField, year } from '../support/frames-page.ts';
import { collectingGrant, type FramesSite, revealingGrant } from '../support/frames-site.ts';
import { root } from '../support/service.ts';
import { until } from '../support/until.ts';

/** A global of the test page. */
declare const sallyport: { createForm: typeof createForm };

/** A page in strict mode. */
const source = `
import { createElement as h, StrictMode, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { CardExpiry, CardNumber, FrameForm, RevealFrame, useFrameForm } from '${root}/sdk/src/react.ts';

const query = new URLSearchParams(location.search);
const authorize = (nonce) => fetch('/authorize', { method: 'POST', body: nonce });

function Checkout() {
  const form = useFrameForm();
  const [complete, setComplete] = useState(false);
  const [card, setCard] = useState();
  const pay = async () => setCard((await form.submit()).card);
  const container = '/cards/42/';
  return h('main', { 'data-complete': complete },
    h('div', { id: 'number' }, h(CardNumber, {
      label: 'Card number', container, className: complete ? 'done' : '', onChange: (state) => setComplete(state.complete),
    })),
    h('div', { id: 'expiry' }, h(CardExpiry, { label: 'Expiry' })),
    h('button', { onClick: pay }, 'Pay'),
    card && h('p', null, card.masked.number),
    h('div', { id: 'shown' }, card && h(RevealFrame, { token: card.id, label: 'Card' })),
  );
}
function Page() {
  const [shown, setShown] = useState(true);
  const options = { url: query.get('url'), publicKey: query.get('key'), authorize: (nonce) => authorize(nonce) };
  return h('div', null,
    shown && h(FrameForm, options, h(Checkout)),
    h('button', { onClick: () => setShown(false) }, 'Leave'),
  );
}
document.body.textContent = '';
createRoot(document.body.appendChild(document.createElement('div'))).render(h(StrictMode, null, h(Page)));
`;

const reactPage = (async () => {
  // Inside the project, so that the modules of react are found.
  const folder = join(root, 'node_modules/.cache');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'frames-react.ts'), source);
  const { outputs } = await Bun.build({ entrypoints: [join(folder, 'frames-react.ts')], target: 'browser' });
  return (outputs[0] as Blob).text();
})();

describeFrames('collecting', (suite, browser) => {
  test('a card is masked for the page, and stored in plain text', async () => {
    const { site, shop } = suite;
    await shop.openForm(cardFields);
    await shop.typeCard();
    const { tokens } = await shop.submit();
    const masked = { number: 'XXXXXXXXXXXX4242', exp_month: '12', exp_year: `20${year}` };
    expect(tokens).toMatchObject({
      card: { type: 'card', container: '/cards/42/', masked },
      verification_code: { type: 'card_verification_code', container: '/cards/codes/' },
    });
    expect(site.nonces).toHaveLength(1);
    const cardId = tokens?.card?.id as string;
    const codeId = tokens?.verification_code?.id as string;
    expect((await site.admin.tokens.get(cardId)).data).toEqual(masked);
    const code = await site.admin.tokens.get(codeId);
    expect(Date.parse(code.expires_at as string) - Date.now()).toBeLessThan(17 * 60_000);
    expect(code).not.toHaveProperty('data');
    const plain = await site.reader.tokens.get(cardId);
    expect(plain.data).toEqual({ ...masked, number: '4242424242424242' });
    expect(await site.reader.tokens.get(codeId)).toMatchObject({ max_uses: 1 });
    expect(JSON.stringify(await site.reader.tokens.get(codeId))).not.toContain('123"');
  });

  test('fields format their text, and tell the page only their state', async () => {
    const { page, shop } = suite;
    await shop.openForm(cardFields);
    expect(await page.evaluate(() => window.fields['card-number']?.state)).toEqual({
      focused: false,
      empty: true,
      valid: true,
      complete: false,
      brand: 'unknown',
    });
    await shop.type('#number', '37828224631000');
    expect(await shop.input('#number').inputValue()).toBe('3782 822463 1000');
    await shop.expectState('card-number', { focused: true, complete: false, brand: 'amex' });
    await shop.type('#number', '5');
    await shop.expectState('card-number', { valid: true, complete: true });
    await shop.type('#code', '123');
    await shop.expectState('verification-code', { complete: false, empty: false });
    await shop.type('#code', '4');
    await shop.expectState('verification-code', { complete: true });
    await shop.type('#expiry', '4/01');
    expect(await shop.input('#expiry').inputValue()).toBe('04/01');
    await shop.expectState('expiry', { valid: false, complete: false });
    await page.evaluate(() => window.fields.expiry?.clear());
    await shop.expectState('expiry', { empty: true, valid: true });
  });

  test('the caret stays in place inside a number, and Backspace passes separators', async () => {
    const { page, shop } = suite;
    await shop.openForm([numberField]);
    await shop.type('#number', '42424242');
    for (let times = 0; times < 4; times++) await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('Backspace');
    expect(await shop.input('#number').inputValue()).toBe('4244 242');
    await page.keyboard.type('2');
    expect(await shop.input('#number').inputValue()).toBe('4242 4242');
  });

  test('a submission with invalid fields is rejected, users see which, and the first one gets the focus', async () => {
    const { page, site, shop } = suite;
    await shop.openForm(cardFields);
    await shop.type('#number', '4242424242424242');
    const usual = await shop.input('#number').evaluate((node) => getComputedStyle(node).color);
    await shop.type('#code', '1');
    await page.locator('#name').focus();
    await shop.expectError('verification-code', 'incomplete', 'Incomplete');
    await shop.expectError('expiry', undefined);
    expect((await shop.submit()).error?.code).toBe('invalid_fields');
    await shop.expectError('expiry', 'required', 'Required');
    await shop.expectState('expiry', { focused: true });
    await shop.type('#expiry', '0121');
    await shop.expectError('expiry', 'expired', 'This card has expired');
    const wrong = shop.input('#expiry');
    expect(await wrong.getAttribute('aria-invalid')).toBe('true');
    expect(await wrong.getAttribute('aria-describedby')).toBe('error');
    expect(await shop.inside('#expiry').locator('#error').textContent()).toBe('This card has expired');
    expect(await wrong.evaluate((node) => getComputedStyle(node).color)).not.toBe(usual);
    expect(site.nonces).toEqual([]);
  });

  test('brands that are not accepted, and texts in the language of the form or of the page', async () => {
    const { shop } = suite;
    await shop.openForm(
      [
        { ...numberField, accept: ['visa'] },
        { type: 'expiry', into: '#expiry', errors: { required: 'When?' } },
      ],
      { locale: 'de-AT' },
    );
    await shop.type('#number', '55555');
    await shop.expectError('card-number', undefined);
    await shop.type('#number', '5');
    await shop.expectError('card-number', 'not_accepted', 'Diese Karte wird nicht akzeptiert');
    await shop.submit();
    await shop.expectError('expiry', 'required', 'When?');
    expect(await shop.input('#expiry').getAttribute('placeholder')).toBe('MM/JJ');
  });

  test('a card in one frame is typed without leaving it, and wraps on phones', async () => {
    const { page, shop } = suite;
    await page.setViewportSize({ width: 900, height: 800 });
    const card = {
      type: 'card',
      into: '#number',
      container: '/cards/42/',
      codeContainer: '/cards/codes/',
    } as const;
    await shop.openForm([{ ...card, label: 'Card' }]);
    const inside = shop.inside('#number');
    const number = inside.getByRole('textbox', { name: 'Card: Card number' });
    const code = inside.getByRole('textbox', { name: 'Card: Security code' });
    const height = async () => (await page.locator('#number iframe').boundingBox())?.height;
    const widen = (width: string) =>
      page.locator('main').evaluate((main, given) => main.style.setProperty('max-width', given), width);
    await widen('none');
    await until('the frame has one line', async () => (await height()) === 40);
    await number.click();
    await page.keyboard.type(`424242424242424212${year}12`);
    await shop.expectState('card', { focused: true, complete: false, valid: true, brand: 'visa' });
    expect(await inside.locator('.brand').first().textContent()).toBe('Visa');
    expect((await shop.submit()).error?.code).toBe('invalid_fields');
    await shop.expectError('card', 'incomplete', 'Incomplete');
    await code.press('3');
    await shop.expectState('card', { complete: true });
    for (let times = 0; times < 4; times++) await code.press('Backspace');
    await page.keyboard.type(`${String(year).at(-1)}123`);
    expect(await number.inputValue()).toBe(cardNumber);
    const { tokens } = await shop.submit();
    expect(tokens).toMatchObject({
      card: { container: '/cards/42/', masked: { number: 'XXXXXXXXXXXX4242', exp_year: `20${year}` } },
      verification_code: { type: 'card_verification_code', container: '/cards/codes/' },
    });
    const frame = page.frames().find((each) => each.url().includes('/card?')) as Frame;
    expect(await accessibilityViolations(frame, ['wcag2a', 'wcag2aa'])).toEqual([]);
    await widen('320px');
    await until('the frame has wrapped', async () => (await height()) === 80);
  });

  test('a form whose frames are refused says why', async () => {
    const { page, shop, site } = suite;
    const open = (changed: { url?: string; publicKey?: string }) =>
      page.evaluate(
        async (options) => {
          const form = sallyport.createForm({ ...options, authorize: async () => {} });
          form.field('card-number', '#number', { label: 'Card number' });
          const error = await form.ready.catch(({ message }) => message);
          form.remove();
          return error;
        },
        { url: site.frames, publicKey: site.publicKey, ...changed },
      );
    expect(await open({ publicKey: 'x' })).toStartWith('The frame was refused: ');
    expect(await open({ url: site.otherSite })).toBe(
      `The Content-Security-Policy of the page lacks ${site.otherSite} in frame-src.`,
    );
    await shop.open(site.otherSite);
    expect(await open({})).toContain('`allowed_origins` of the application does not contain the origin');
    site.proxy.setMode('refuse');
    site.proxy.disconnect();
    expect(await open({})).toBe(`No frames can be reached at ${site.frames}.`);
  });

  test('an IBAN and texts become separate tokens', async () => {
    const { shop } = suite;
    const container = '/cards/';
    await shop.openForm([
      { type: 'iban', into: '#number', container },
      { type: 'text', into: '#expiry', name: 'ssn', format: 'us-ssn', container },
      { type: 'text', into: '#code', name: 'note', container },
    ]);
    await shop.type('#number', 'de89370400440532013000');
    await shop.type('#expiry', '123456789');
    await shop.type('#code', 'ابن sina');
    expect(await shop.input('#number').inputValue()).toBe('DE89 3704 0044 0532 0130 00');
    expect(await shop.input('#expiry').inputValue()).toBe('123-45-6789');
    const { tokens } = await shop.submit();
    expect(Object.keys(tokens ?? {}).sort()).toEqual(['iban', 'note', 'ssn']);
    expect(tokens?.iban?.masked).toBe(`${'X'.repeat(18)}3000`);
    expect(tokens?.note).not.toHaveProperty('masked');
  });

  test('a session that has ended is renewed, and what was typed stays', async () => {
    const { site, shop } = suite;
    await shop.openForm([numberField]);
    await shop.type('#number', cardNumber);
    expect((await shop.submit()).tokens?.card).toBeDefined();
    for await (const session of site.admin.sessions.all()) await site.admin.sessions.end(session.id);
    expect((await shop.submit()).tokens?.card).toBeDefined();
    expect(site.nonces).toHaveLength(2);
    expect(await shop.input('#number').inputValue()).toBe(cardNumber);
  });

  test('after a refusal, a denial or a lost connection, the form still works', async () => {
    const { site, shop } = suite;
    await shop.openForm([numberField]);
    await shop.type('#number', cardNumber);
    site.grant = undefined;
    expect((await shop.submit()).error?.code).toBe('not_authorized');
    site.grant = collectingGrant;
    site.proxy.setMode('refuse');
    site.proxy.disconnect();
    expect((await shop.submit()).error?.code).toBe('connection_failed');
    site.proxy.setMode('pass');
    site.grant = { permissions: ['token:read'] };
    expect((await shop.submit()).error?.code).toBe('permission_missing');
    for await (const session of site.admin.sessions.all()) await site.admin.sessions.end(session.id);
    site.grant = collectingGrant;
    expect((await shop.submit()).tokens?.card).toBeDefined();
    expect(await shop.input('#number').inputValue()).toBe(cardNumber);
  });

  test('two forms on a page do not mix their fields', async () => {
    const { shop } = suite;
    await shop.openForm([{ ...numberField, container: '/cards/1/' }]);
    await shop.openForm([{ ...numberField, into: '#second', container: '/cards/2/' }], {}, 'second');
    await shop.type('#number', cardNumber);
    await shop.type('#second', '5555 5555 5555 4444');
    const [first, second] = [await shop.submit(), await shop.submit('second')];
    expect(first.tokens?.card).toMatchObject({
      container: '/cards/1/',
      masked: { number: 'XXXXXXXXXXXX4242' },
    });
    expect(second.tokens?.card).toMatchObject({
      container: '/cards/2/',
      masked: { number: 'XXXXXXXXXXXX4444' },
    });
  });

  test('the keyboard reaches the fields in the order of the page', async () => {
    const { page, shop } = suite;
    await shop.openForm(cardFields);
    await page.locator('#name').focus();
    // A key goes to the frame that has the focus. Another frame gets it a moment after the key is handled.
    for (const field of ['verification-code', 'expiry', 'card-number']) {
      await page.keyboard.press('Shift+Tab');
      await shop.expectState(field, { focused: true });
    }
    await page.keyboard.type(cardNumber);
    await page.keyboard.press('Tab');
    await shop.expectState('expiry', { focused: true });
    await page.keyboard.type(`12${year}`);
    await page.keyboard.press('Tab');
    await shop.expectState('verification-code', { focused: true });
    await page.keyboard.type('123');
    await shop.expectState('verification-code', { complete: true });
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => window.entered === 1);
    await page.keyboard.press('Tab');
    await page.waitForFunction(() => document.activeElement?.id === 'name');
    expect((await shop.submit()).tokens?.card).toBeDefined();
  });

  // Firefox ESR cannot emulate a color scheme.
  test.each(browser === 'Chromium' ? (['light', 'dark'] as const) : (['light'] as const))(
    'the form is accessible with %s colors, and its layout stays the same',
    async (colorScheme) => {
      const { page, shop } = suite;
      await page.setViewportSize({ width: colorScheme === 'light' ? 390 : 1000, height: 800 });
      if (browser === 'Chromium') await page.emulateMedia({ colorScheme });
      await shop.openForm(cardFields);
      const frame = page.locator('#number iframe');
      const before = await frame.boundingBox();
      await shop.typeCard();
      expect(await frame.boundingBox()).toEqual(before);
      expect(before?.height).toBe(40);
      expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
      const color = await shop.input('#number').evaluate((node) => getComputedStyle(node).color);
      expect(color).toBe(colorScheme === 'dark' ? 'rgb(255, 255, 255)' : 'rgb(0, 0, 0)');
      const rules = ['wcag2a', 'wcag2aa', 'wcag21aa'];
      expect(await accessibilityViolations(page, [...rules, 'best-practice'])).toEqual([]);
      await page.evaluate(() => window.fields.expiry?.clear());
      await shop.type('#expiry', '13');
      await shop.expectState('expiry', { valid: false });
      const inside = page.frames().filter((frame) => /card-number|expiry|verification/.test(frame.url()));
      expect(inside).toHaveLength(3);
      for (const frame of inside) expect(await accessibilityViolations(frame, rules)).toEqual([]);
    },
  );

  test('in a page from right to left, texts follow it, and numbers stay in their order', async () => {
    const { page, shop } = suite;
    await page.evaluate(() => Object.assign(document.documentElement, { dir: 'rtl', lang: 'ar' }));
    await shop.openForm([numberField, { type: 'text', into: '#code', label: 'اسم', container: '/cards/' }]);
    await shop.type('#number', '٤٢٤٢ ٤٢٤٢ ٤٢٤٢ ٤٢٤٢');
    expect(await shop.input('#number').inputValue()).toBe(cardNumber);
    await shop.type('#code', 'ابن sina');
    const styleOf = (into: string) =>
      shop.input(into).evaluate((node) => {
        const { direction, textAlign } = getComputedStyle(node);
        const { dir, lang } = document.documentElement;
        return [dir, lang, direction, textAlign];
      });
    expect(await styleOf('#number')).toEqual(['rtl', 'ar', 'ltr', 'right']);
    expect((await styleOf('#code')).slice(0, 3)).toEqual(['rtl', 'ar', 'rtl']);
    expect((await shop.submit()).tokens?.card?.masked).toEqual({ number: 'XXXXXXXXXXXX4242' });
  });

  test('on a slow network the form has its size from the start, and works when it is ready', async () => {
    const { page, shop, site } = suite;
    site.proxy.setDelay(200);
    const opening = shop.openForm(cardFields);
    await page.locator('#code iframe').waitFor({ state: 'attached' });
    const sizes = () =>
      page.locator('form iframe').evaluateAll((all) => all.map(({ clientHeight: height }) => height));
    expect(await sizes()).toEqual([40, 40, 40]);
    await opening;
    expect(await sizes()).toEqual([40, 40, 40]);
    await shop.typeCard();
    expect(Object.keys((await shop.submit()).tokens ?? {})).toEqual(['card', 'verification_code']);
  });

  test('frames that cannot be loaded fail with a message, and can be opened again', async () => {
    const { page, shop, site } = suite;
    site.proxy.setMode('refuse');
    site.proxy.disconnect();
    const failed = await page.evaluate(
      async ({ url, publicKey }) => {
        const form = sallyport.createForm({ url, publicKey, authorize: async () => {}, timeout: 1500 });
        form.field('card-number', '#number', { label: 'Card number' });
        const { code } = await form.ready.catch((error) => error);
        const submitted = await form.submit().catch((error) => error.code);
        form.remove();
        return [code, submitted, document.querySelectorAll('iframe').length];
      },
      { url: site.frames, publicKey: site.publicKey },
    );
    expect(failed).toEqual(['frame_failed', 'frame_failed', 0]);
    site.proxy.setMode('pass');
    await shop.openForm([numberField]);
    await shop.type('#number', cardNumber);
    expect((await shop.submit()).tokens?.card).toBeDefined();
  });

  test('React components do not reload their frames while the page renders, and remove them', async () => {
    const { page, shop, site } = suite;
    site.scripts.set('react', await reactPage);
    await page.goto(
      `${site.shop}/with/react?${new URLSearchParams({ url: site.frames, key: site.publicKey })}`,
    );
    await shop.type('#number', cardNumber);
    await page.locator('main[data-complete="true"]').waitFor();
    await shop.type('#expiry', `12${year}`);
    await page.getByRole('button', { name: 'Pay' }).click();
    await page.getByText('XXXXXXXXXXXX4242').waitFor();
    expect(await shop.input('#number').inputValue()).toBe(cardNumber);
    expect(site.nonces).toHaveLength(1);
    await shop.inside('#shown').getByRole('button', { name: 'Show' }).waitFor();
    // The coordinator, two fields and the reveal frame.
    expect(await page.locator('iframe').count()).toBe(4);
    await page.getByRole('button', { name: 'Leave' }).click();
    await page.locator('iframe').first().waitFor({ state: 'detached' });
    expect(await page.locator('iframe').count()).toBe(0);
  });

  test('styles of the page apply inside the field, also to placeholders and errors', async () => {
    const { page, shop } = suite;
    const style = {
      base: { fontSize: '20px', height: '60px' },
      ':invalid': { color: 'rgb(200, 0, 0)' },
      '::placeholder': { color: 'rgb(0, 0, 200)' },
    };
    await shop.openForm([numberField], { style });
    await page.waitForFunction(() => document.querySelector('#number iframe')?.clientHeight === 60);
    const colorOf = (pseudo?: string) =>
      shop.input('#number').evaluate((node, name) => getComputedStyle(node, name).color, pseudo);
    expect(await colorOf('::placeholder')).toBe('rgb(0, 0, 200)');
    await shop.type('#number', '4242424242424241424');
    expect(await colorOf()).toBe('rgb(200, 0, 0)');
  });
});

function revealFrame(page: Page): Frame {
  return page.frames().find((frame) => frame.url().includes('/reveal')) as Frame;
}

describeFrames('a reveal frame', (suite, browser) => {
  test('shows data as the rules say, with an audit entry, and hides it again', async () => {
    const { site, shop } = suite;
    site.grant = revealingGrant;
    const id = await shop.openReveal({ purpose: 'support 7', seconds: 5 });
    await shop.clickUntil('Show', (shown) => shown === '4242 4242 4242 4242Ada');
    await site.server.flush();
    const { data } = await site.admin.logs.list({ token: id, operation: 'token.read' });
    // On a slow machine the data can be hidden before the test sees it. The next click then reads it again.
    expect(data.length).toBeGreaterThan(0);
    for (const entry of data)
      expect(entry).toMatchObject({ purpose: 'support 7', decision: { transform: 'reveal' } });
    await shop.inside('#shown').locator('output:empty').waitFor({ state: 'attached' });
  });

  test('shows the masked value without a purpose, and hides it on a click', async () => {
    const { site, shop } = suite;
    site.grant = revealingGrant;
    await shop.openReveal();
    await shop.clickUntil('Show', (shown) => shown === 'XXXXXXXXXXXX4242');
    await shop.clickUntil('Hide', (shown) => shown === '');
  });

  // Firefox has no permission that a test could grant.
  test.each(browser === 'Chromium' ? ['4242424242424242'] : [])(
    'copies the value that is clicked: %j',
    async (copied) => {
      const { page, site, shop } = suite;
      site.grant = revealingGrant;
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await shop.openReveal({ purpose: 'support 7' });
      await shop.clickUntil('Show', (shown) => shown.includes('Ada'));
      await shop.copy('9');
      await page.keyboard.press('Backspace');
      const shown = (await shop.inside('#shown').locator('label').textContent()) ?? '';
      expect(await accessibilityViolations(revealFrame(page), ['wcag2a', 'wcag2aa'])).toEqual([]);
      await page.keyboard.type(shown.replace(/\D/g, ''));
      await shop.inside('#shown').getByTitle('Copied').waitFor();
      await page.bringToFront();
      await page.locator('#name').focus();
      expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(copied);
    },
  );

  test.each([320, 400, 1000])('shows all of the data in %d pixels', async (width) => {
    const { page, site, shop } = suite;
    site.grant = revealingGrant;
    await page.setViewportSize({ width, height: 800 });
    await shop.openReveal({ purpose: 'support 7' }, 'Maximiliane Musterfrau-Beispiel');
    await shop.clickUntil('Show', (shown) => shown.includes('Musterfrau'));
    const fits = await revealFrame(page).evaluate(() => {
      const [output, ...inside] = document.querySelectorAll('output, .value, .reveal > button');
      const { clientHeight, scrollHeight, clientWidth, scrollWidth } = output as Element;
      const isIn = ({ left, right, bottom }: DOMRect) =>
        left >= 0 && right <= innerWidth && bottom <= innerHeight;
      const boxes = inside.map((each) => isIn(each.getBoundingClientRect()));
      return [scrollHeight <= clientHeight, scrollWidth <= clientWidth, ...boxes];
    });
    expect(fits).toEqual([true, true, true, true, true]);
  });

  test('says that the rules do not show the data', async () => {
    const { site, shop } = suite;
    const denied: FramesSite['grant'] = { permissions: ['token:create'] };
    site.grant = denied;
    await shop.openReveal();
    await shop.clickUntil('Show', (shown) => shown === 'Not allowed');
  });
});
