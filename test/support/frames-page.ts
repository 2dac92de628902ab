/** A suite of frame tests: a shop, a browser, and for each test a page of the shop with the library of the frames. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect } from 'bun:test';
import type { Browser, BrowserContext, FrameLocator, Locator, Page } from 'playwright-core';
import type {
  createForm,
  Field,
  FieldOptions,
  FieldState,
  FieldType,
  FormOptions,
  RevealOptions,
} from '../../sdk/src/frames.ts';
import { noBrowser, noFirefox, openBrowser, openFirefox } from './browser.ts';
import { collectingGrant, type FramesSite, openFramesSite } from './frames-site.ts';

type Form = ReturnType<typeof createForm>;

/** Globals of the test page. */
declare const sallyport: { createForm: typeof createForm };
declare global {
  interface Window {
    form: Form;
    fields: Record<string, Field>;
    entered: number;
  }
}

export interface FieldSpec extends Omit<FieldOptions, 'label' | 'onChange' | 'onEnter'> {
  readonly type: FieldType;
  readonly into: string;
  readonly label?: string;
}

export const cardNumber = '4242 4242 4242 4242';
export const year = String((new Date().getFullYear() + 3) % 100);

export const numberField: FieldSpec = {
  type: 'card-number',
  into: '#number',
  label: 'Card number',
  container: '/cards/42/',
};
export const cardFields: readonly FieldSpec[] = [
  numberField,
  { type: 'expiry', into: '#expiry', label: 'Expiry' },
  { type: 'verification-code', into: '#code', label: 'Security code', container: '/cards/codes/' },
];

/** A click takes some milliseconds, and must be repeated for half a second. */
const maxClicks = 1000;

interface Submitted {
  readonly tokens?: Record<string, { id: string; type: string; container: string; masked?: unknown }>;
  readonly error?: { code: string; message: string };
}

export class FramesPage {
  readonly page: Page;
  readonly site: FramesSite;

  constructor(page: Page, site: FramesSite) {
    this.page = page;
    this.site = site;
  }

  async open(url: string): Promise<void> {
    await this.page.goto(url);
    await this.page.waitForFunction(() => 'sallyport' in window);
  }

  /** Opens a form in the page, and waits until its frames are ready. */
  async openForm(
    specs: readonly FieldSpec[],
    options: Partial<FormOptions> = {},
    as: 'form' | 'second' = 'form',
  ): Promise<void> {
    const { frames: url, publicKey } = this.site;
    await this.page.evaluate(
      async ({ specs, options, as, ...service }) => {
        const form = sallyport.createForm({
          authorize: (nonce) => fetch('/authorize', { method: 'POST', body: nonce }),
          ...service,
          ...options,
        });
        const fields: Record<string, Field> = {};
        window.entered = 0;
        for (const { type, into, label = type, ...rest } of specs)
          fields[rest.name ?? type] = form.field(type, into, {
            label,
            onEnter: () => window.entered++,
            ...rest,
          });
        Object.assign(window, { [as]: form, fields });
        await form.ready;
      },
      { url, publicKey, specs, options, as },
    );
  }

  inside(into: string): FrameLocator {
    return this.page.frameLocator(`${into} iframe`);
  }

  input(into: string): Locator {
    return this.inside(into).locator('input');
  }

  async type(into: string, text: string): Promise<void> {
    await this.input(into).click();
    await this.input(into).pressSequentially(text);
  }

  async typeCard(): Promise<void> {
    await this.type('#number', cardNumber);
    await this.type('#expiry', `12${year}`);
    await this.type('#code', '123');
  }

  submit(as: 'form' | 'second' = 'form'): Promise<Submitted> {
    return this.page.evaluate(async (name) => {
      const form = (window as unknown as Record<string, Form>)[name] as Form;
      return form
        .submit()
        .then((tokens) => ({ tokens }))
        .catch(({ code, message }) => ({ error: { code, message } }));
    }, as);
  }

  /** Waits until the page knows that the state of the field has these values. */
  async expectState(name: string, expected: Partial<FieldState>): Promise<void> {
    await this.page.waitForFunction(
      ([field, state]) => {
        const current = window.fields[field as string]?.state as unknown as Record<string, unknown>;
        return Object.entries(state as object).every(([key, value]) => current[key] === value);
      },
      [name, expected] as const,
    );
  }

  /** Waits until the page knows that the field has this error. */
  async expectError(name: string, code: string | undefined, message?: string): Promise<void> {
    await this.page.waitForFunction(
      ([field, wanted]) => window.fields[field as string]?.state.error?.code === wanted,
      [name, code] as const,
    );
    const read = (field: string) => window.fields[field]?.state.error?.message;
    expect(await this.page.evaluate(read, name)).toBe(message as string);
  }

  /** Stores a card and opens a form with a reveal frame for it. Returns the id of the token. */
  async openReveal(
    options: Pick<RevealOptions, 'purpose' | 'seconds' | 'style'> = {},
    holder = 'Ada',
  ): Promise<string> {
    const { id } = await this.site.admin.tokens.create({
      container: '/cards/42/',
      data: { number: '4242424242424242', holder },
      mask: { number: '{{ data.number | reveal_last: 4 }}' },
    });
    await this.openForm([]);
    await this.page.evaluate(
      ({ token, options }) => window.form.reveal('#shown', { ...options, token, label: 'Card' }).ready,
      { token: id, options },
    );
    return id;
  }

  /** Clicks on the first value, and types the code that the frame shows, or another one. */
  async copy(typed?: string): Promise<void> {
    const frame = this.inside('#shown');
    await frame.locator('button.value').first().click();
    const shown = (await frame.locator('label').textContent()) ?? '';
    await frame.getByRole('textbox', { name: shown }).pressSequentially(typed ?? shown.replace(/\D/g, ''));
  }

  /** Clicks until the output has this text. A click counts once the frame has been visible for half a second. */
  async clickUntil(name: string, matches: (shown: string) => boolean): Promise<void> {
    const [button, output] = [
      this.inside('#shown').getByRole('button', { name }),
      this.inside('#shown').locator('output'),
    ];
    for (let attempt = 0; attempt < maxClicks; attempt++) {
      if (matches((await output.textContent()) ?? '')) return;
      // The button can change its name in this moment, and is then not found.
      await button.click({ timeout: 500 }).catch(() => {});
    }
    throw new Error(`${name} had no effect`);
  }
}

export interface FramesSuite {
  readonly site: FramesSite;
  readonly page: Page;
  readonly shop: FramesPage;
}

export type BrowserName = 'Chromium' | 'Firefox';

/** Defines the tests for each browser. The properties of `suite` are available inside tests only. */
export function describeFrames(
  name: string,
  define: (suite: FramesSuite, browser: BrowserName) => void,
): void {
  describe.skipIf(noBrowser)(`${name} in Chromium:`, () => defineFor('Chromium', openBrowser, define));
  describe.skipIf(noFirefox)(`${name} in Firefox:`, () => defineFor('Firefox', openFirefox, define));
}

function defineFor(
  name: BrowserName,
  open: () => Promise<Browser>,
  define: (suite: FramesSuite, browser: BrowserName) => void,
): void {
  let site: FramesSite;
  let browser: Browser;
  let context: BrowserContext;
  let shop: FramesPage;
  const errors: string[] = [];
  beforeAll(async () => {
    [site, browser] = await Promise.all([openFramesSite(), open()]);
  });
  afterAll(async () => {
    await browser?.close();
    await site?.close();
  });
  beforeEach(async () => {
    errors.length = 0;
    site.nonces.length = 0;
    site.grant = collectingGrant;
    context = await browser.newContext({ viewport: { width: 1000, height: 800 } });
    const page = await context.newPage();
    page.setDefaultTimeout(120_000);
    page.on('pageerror', ({ message }) => {
      // Firefox also reports what policies block, which some tests expect.
      const isBlocked = /^The (page.s settings blocked|resource at .* was blocked|target origin provided)/;
      if (!isBlocked.test(message)) errors.push(message);
    });
    shop = new FramesPage(page, site);
    await shop.open(site.shop);
  });
  afterEach(async () => {
    await context.close();
    site.proxy.setMode('pass');
    site.proxy.setDelay(0);
    expect(errors).toEqual([]);
  });
  define(
    {
      get site() {
        return site;
      },
      get page() {
        return shop.page;
      },
      get shop() {
        return shop;
      },
    },
    name,
  );
}
