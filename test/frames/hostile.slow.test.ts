/** A page with a hostile script attacks the frames that it embeds. See docs/security/threat-model.md#frames. */
import { expect, test } from 'bun:test';
import type { Frame, Page } from 'playwright-core';
import { cardFields, cardNumber, describeFrames, numberField } from '../support/frames-page.ts';
import { revealingGrant } from '../support/frames-site.ts';

describeFrames('a hostile page', (suite, browser) => {
  test('sees no value in any message, document or address', async () => {
    const { page, shop } = suite;
    // Records all messages to the page: at its window, and at all of its ports.
    await page.evaluate(() => {
      const seen: unknown[] = [];
      Object.assign(window, { seen });
      addEventListener('message', ({ data }) => seen.push(data), true);
      const { MessageChannel: Original } = window;
      window.MessageChannel = class extends Original {
        constructor() {
          super();
          for (const port of [this.port1, this.port2])
            port.addEventListener('message', ({ data }) => seen.push(data));
        }
      };
    });
    await shop.openForm(cardFields);
    await shop.typeCard();
    expect((await shop.submit()).tokens?.card?.masked).toMatchObject({ number: 'XXXXXXXXXXXX4242' });
    const found = await page.evaluate(() => {
      const { seen } = window as unknown as { seen: unknown[] };
      const frames = Array.from(
        document.querySelectorAll('iframe'),
        ({ contentDocument, src, contentWindow }) => {
          let address: string;
          try {
            address = String(contentWindow?.location.href);
          } catch {
            address = 'not readable';
          }
          return { contentDocument, src, address };
        },
      );
      return { seen: JSON.stringify(seen), frames };
    });
    expect(found.seen).toContain('"brand":"visa"');
    expect(found.seen).toContain('XXXXXXXXXXXX4242');
    expect(found.seen).not.toMatch(/4242 ?4242|"123"|slp_ses_/);
    expect(found.frames).toHaveLength(4);
    for (const { contentDocument, src, address } of found.frames) {
      expect([contentDocument, address]).toEqual([null, 'not readable']);
      expect(src).not.toContain('4242');
    }
  });

  test('cannot join as a field or as a coordinator, nor collect values', async () => {
    const { page, shop } = suite;
    await shop.openForm(cardFields);
    await shop.typeCard();
    // Forges every message of the protocol, over windows and over new ports.
    await page.evaluate((frames) => {
      const answers: unknown[] = [];
      Object.assign(window, { answers });
      const forged = [
        { protocol: 'sallyport/frames/1', options: { label: 'x', name: 'y' } },
        { protocol: 'sallyport/frames/1/join', name: 'text' },
        { kind: 'collect' },
        { kind: 'read', token: 'card-42' },
        { kind: 'brand', brand: 'amex' },
        { protocol: 'sallyport/frames/1', kind: 'collect' },
      ];
      for (const { contentWindow } of document.querySelectorAll('iframe'))
        for (const message of forged) {
          const { port1, port2 } = new MessageChannel();
          port1.onmessage = ({ data }) => {
            answers.push(data);
          };
          contentWindow?.postMessage(message, frames, [port2]);
          for (const other of forged) port1.postMessage(other);
        }
    }, suite.site.frames);
    // The submission comes after the forged messages, in the order of the frames' queues.
    expect((await shop.submit()).tokens?.card).toBeDefined();
    expect(await page.evaluate(() => (window as unknown as { answers: unknown[] }).answers)).toEqual([]);
  });

  test('cannot connect fields to another coordinator', async () => {
    const { page, shop, site } = suite;
    const { key: otherKey } = await site.admin.applications.create({
      name: 'of the attacker',
      type: 'public',
      permissions: ['token:create'],
      allowed_origins: [site.shop],
    });
    // Coordinators of another application and with an opaque origin, in front of the right one and with its form id.
    await page.evaluate(
      ({ frames, otherKey, publicKey }) => {
        const { appendChild } = Element.prototype;
        const append = document.body.append.bind(document.body);
        document.body.append = (...nodes: (Node | string)[]) => {
          const [node] = nodes;
          if (node instanceof HTMLIFrameElement && node.src.includes('/coordinator')) {
            const { hash } = new URL(node.src);
            for (const [key, sandbox] of [
              [otherKey, ''],
              [publicKey, 'allow-scripts'],
            ] as const) {
              const fake = document.createElement('iframe');
              if (sandbox) fake.sandbox.add(sandbox);
              fake.src = `${frames}/frames/v1/coordinator?application=${key}${hash}`;
              appendChild.call(document.body, fake);
            }
          }
          append(...nodes);
        };
      },
      { frames: site.frames, otherKey, publicKey: site.publicKey },
    );
    await shop.openForm([numberField]);
    expect(await page.locator('body > iframe').count()).toBe(3);
    await shop.type('#number', cardNumber);
    expect((await shop.submit()).tokens?.card?.container).toBe('/cards/42/');
    const fakes = page.frames().filter((frame) => frame.url().includes(otherKey));
    expect(fakes).toHaveLength(1);
  });

  test('cannot store a value where the session may not, nor with another session', async () => {
    const { page, shop, site } = suite;
    const count = async () => (await site.admin.tokens.list()).pagination.total_items;
    const before = await count();
    for (const container of ['/other/', '/cards/../other/', '/CARDS-2/', '']) {
      await shop.openForm([{ ...numberField, container }]);
      await shop.type('#number', cardNumber);
      const { error } = await shop.submit();
      expect([container, ['permission_missing', 'validation_failed'].includes(error?.code ?? '')]).toEqual([
        container,
        true,
      ]);
      await page.evaluate(() => window.form.remove());
    }
    // The page passes the nonce of another session on, which is authorized instead of the one of the coordinator.
    const { body: stranger } = await site.server.call('POST', '/sessions', {
      key: (
        await site.admin.applications.create({ name: 'x', type: 'public', permissions: ['token:create'] })
      ).key,
    });
    await page.evaluate((nonce) => {
      const { fetch } = window;
      window.fetch = ((url: string, init: RequestInit) =>
        fetch(url, { ...init, body: nonce })) as typeof fetch;
    }, stranger.nonce);
    await shop.openForm([numberField]);
    await shop.type('#number', cardNumber);
    expect((await shop.submit()).error?.code).toBe('permission_missing');
    expect(await count()).toBe(before);
  });

  test('cannot call the service in the name of a frame', async () => {
    const { page, site } = suite;
    const status = await page.evaluate(
      async ({ frames, publicKey, shop }) => {
        const headers = { 'SVC-API-KEY': publicKey, 'SVC-FRAME-ANCESTOR': shop };
        const call = (given: Record<string, string>) =>
          fetch(`${frames}/sessions`, { method: 'POST', headers: given }).then(
            (response) => response.status,
            () => 'blocked',
          );
        return [await call(headers), await call({ 'SVC-API-KEY': publicKey })];
      },
      { frames: site.frames, publicKey: site.publicKey, shop: site.shop },
    );
    // CORS allows no script of a page to name an ancestor.
    expect(status).toEqual(['blocked', 403]);
    for (const headers of [{ Origin: site.shop }, { Origin: site.shop, 'SVC-FRAME-ANCESTOR': site.shop }]) {
      const init = { method: 'POST', headers: { 'SVC-API-KEY': site.publicKey, ...headers } };
      expect((await fetch(`${site.frames}/sessions`, init)).status).toBe(403);
    }
  });

  test.each(['/', '/outer'])(
    'of another origin cannot embed the frames, also not around the shop: %s',
    async (path) => {
      const { page, shop, site } = suite;
      await page.goto(site.otherSite + path);
      const within = path === '/' ? page.mainFrame() : await framed(page, site.shop);
      await within.waitForFunction(() => 'sallyport' in window);
      const message = await within.evaluate(
        async ({ url, publicKey }) => {
          const { createForm } = (
            window as unknown as { sallyport: typeof import('../../sdk/src/frames.ts') }
          ).sallyport;
          const form = createForm({ url, publicKey, authorize: async () => {}, timeout: 2000 });
          form.field('card-number', '#number', { label: 'Card number' });
          form.reveal('#shown', { token: 'card-42', label: 'Card' });
          return form.ready.then(
            () => 'ready',
            (error: Error) => error.message,
          );
        },
        { url: site.frames, publicKey: site.publicKey },
      );
      expect(message).toContain('allowed_origins');
      expect(shop.site.nonces).toEqual([]);
    },
  );

  test('learns nothing by styles, formats and sizes', async () => {
    const { page, shop, site } = suite;
    const requested: string[] = [];
    page.on('request', (request) => requested.push(request.url()));
    const style = {
      base: {
        backgroundImage: `url(${site.shop}/leak)`,
        background: `url(${site.shop}/leak)`,
        fontFamily: `x, url(${site.shop}/leak)`,
        color: `red; background: url(${site.shop}/leak)`,
        position: 'fixed',
        width: '1000px',
        '--x': 'y',
      },
      '::selection': { color: 'red' },
    };
    const format = '^4.*$' as 'any';
    await shop.openForm([{ type: 'text', into: '#number', format, container: '/cards/' }], { style });
    await shop.type('#number', '5');
    await shop.expectState('text', { valid: true, complete: true });
    const computed = await shop.input('#number').evaluate((node) => {
      const { backgroundImage, position, color } = getComputedStyle(node);
      return { backgroundImage, position, color };
    });
    expect(computed).toEqual({ backgroundImage: 'none', position: 'static', color: 'rgb(0, 0, 0)' });
    expect(requested.filter((url) => url.includes('leak'))).toEqual([]);

    site.grant = revealingGrant;
    const heights: unknown[] = [];
    for (const holder of ['A', 'A very long name '.repeat(50)]) {
      await page.evaluate(() => window.form.remove());
      await shop.openReveal({ purpose: 'test' }, holder);
      await shop.clickUntil('Show', (shown) => shown.includes(holder.trim()));
      heights.push((await page.locator('#shown iframe').boundingBox())?.height);
    }
    expect(new Set(heights).size).toBe(1);
  });

  test('cannot script a frame that it opens in a tab, which does nothing', async () => {
    const { page, site } = suite;
    await page.goto(`${site.frames}/frames/v1/card-number?application=${site.publicKey}`);
    expect(await page.locator('input').count()).toBe(0);
  });

  // Other browsers do not tell a frame that it is covered.
  const covers = browser === 'Chromium' ? ['a cover', 'opacity'] : [];
  test.each(covers)('cannot make the user reveal data that is hidden by %s', async (how) => {
    const { page, shop, site } = suite;
    site.grant = revealingGrant;
    const id = await shop.openReveal({ purpose: 'test' });
    await shop.clickUntil('Show', (shown) => shown.includes('Ada'));
    await shop.clickUntil('Hide', (shown) => shown === '');
    const countReads = async () => {
      await site.server.flush();
      return (await site.admin.logs.list({ token: id, operation: 'token.read' })).data.length;
    };
    const reads = await countReads();
    await page.evaluate((way) => {
      const cover = document.createElement('div');
      const frame = document.querySelector('#shown iframe') as HTMLElement;
      if (way === 'opacity') frame.style.opacity = '0.01';
      else
        Object.assign(cover.style, {
          position: 'fixed',
          inset: '0',
          background: 'white',
          pointerEvents: 'none',
        });
      document.body.append(cover);
    }, how);
    const button = shop.inside('#shown').getByRole('button', { name: 'Show' });
    await button.click({ force: true });
    // The button is busy until the frame has decided about the click.
    await shop.inside('#shown').locator('button[aria-busy=false]', { hasText: 'Show' }).waitFor();
    expect(await shop.inside('#shown').locator('output').textContent()).toBe('');
    expect(await countReads()).toBe(reads);
  });

  // Chromium says that a frame behind a mask is visible. Firefox has no permission that a test could grant.
  test.each(browser === 'Chromium' ? ['a mask'] : [])(
    'cannot make the user copy data that is hidden by %s',
    async () => {
      const { page, shop, site } = suite;
      site.grant = revealingGrant;
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await shop.openReveal({ purpose: 'test' });
      await page.evaluate(() => {
        (document.querySelector('#shown iframe') as HTMLElement).style.mask = 'linear-gradient(#0000, #0000)';
        return navigator.clipboard.writeText('before');
      });
      await shop.clickUntil('Show', (shown) => shown.includes('Ada'));
      await shop.inside('#shown').locator('output').focus();
      for (const key of ['Control+a', 'Control+c']) await page.keyboard.press(key);
      // No code is below 100.
      for (let attempt = 0; attempt < 3; attempt++) await shop.copy('099');
      await shop.inside('#shown').getByRole('button', { name: 'Show' }).waitFor();
      await shop.clickUntil('Show', (shown) => shown.includes('Ada'));
      expect(await shop.inside('#shown').locator('button.value').count()).toBe(0);
      await page.locator('#name').focus();
      expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('before');
    },
  );
});

/** The frame with the shop in a page that embeds it. */
async function framed(page: Page, origin: string): Promise<Frame> {
  const element = await page.waitForSelector(`iframe[src^="${origin}"]`);
  const frame = await element.contentFrame();
  if (!frame) throw new Error('the shop is not framed');
  return frame;
}
