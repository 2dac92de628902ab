/** Destinations in the file of `sallyport apply`. */
import { expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setUpApply } from '../../support/apply.ts';

const fixture = setUpApply();
const { apply, applications } = fixture;

const secret = 'Bearer sk_live_51HhTbqF';
const env = { PAYMENTS_KEY: secret };
const shop = `
destinations:
  - name: payments
    origin: https://api.payments.example
    headers:
      authorization: { env: PAYMENTS_KEY }
    requests:
      - method: POST
        path: /v1/charges
        placeholders: [{ at: /card/number, from: /number }]
        reply: [/id]
applications:
  - name: shop
    type: private
    rules:
      - priority: 1
        container: /cards/
        transform: redact
        permissions: [token:use]
        destinations: [payments]
`;

const destinations = async () =>
  (await fixture.server.call('GET', '/destinations', { key: fixture.key })).body.data;

test('a destination and a rule that names it are planned, created, and then unchanged', async () => {
  const { code, out } = await apply(shop, ['--plan']);
  expect(code).toBe(5);
  expect(out).toStartWith(
    [
      '+ destination payments',
      '    + origin https://api.payments.example',
      '    + request POST /v1/charges: inserts /card/number from /number; returns the status, /id',
      '    + header authorization',
      '    + timeout 25 s',
      '    + max in flight 50',
      '+ private shop',
      '    + rule priority 1: token:use in /cards/ at destinations payments as redact',
      '',
    ].join('\n'),
  );
  expect(out).toEndWith('2 to create, 0 to update, 0 to delete, 0 unchanged\n');
  expect(await destinations()).toEqual([]);
  const first = await apply(shop, ['--yes'], { env });
  expect([first.code, first.err]).toEqual([0, '']);
  expect(first.out).not.toContain('sk_live');
  const [{ id, header_names }] = await destinations();
  expect(header_names).toEqual(['authorization']);
  expect((await applications()).shop?.rules).toMatchObject([{ destinations: [id] }]);
  // Without the secret: it is not needed.
  expect((await apply(shop, ['--yes'])).out).toContain('no changes');
  expect((await apply(shop.replace('[payments]', `[${id}]`), ['--plan'])).out).toContain('no changes');
});

test('only differences are sent: the secret is sent only if names of headers change', async () => {
  await apply(shop, ['--yes'], { env });
  const slower = shop.replace('    requests:', '    timeout: 5\n    requests:');
  const { code, out } = await apply(slower, ['--yes']);
  expect([code, out]).toEqual([
    0,
    expect.stringContaining('~ destination payments\n    - timeout 25 s\n    + timeout 5 s\n'),
  ]);
  const more = slower.replace(
    '      authorization:',
    '      X-Version: { file: version }\n      authorization:',
  );
  writeFileSync(join(fixture.folder, 'version'), '7\n');
  const file = more.replace('file: version', `file: ${join(fixture.folder, 'version')}`);
  const unset = await apply(file, ['--yes']);
  expect([unset.code, unset.err]).toEqual([
    2,
    expect.stringContaining('"payments": PAYMENTS_KEY is not set or empty'),
  ]);
  expect((await destinations())[0].header_names).toEqual(['authorization']);
  expect((await apply(file, ['--yes'], { env })).out).toContain('    + header x-version\n');
  const [{ header_names, timeout }] = await destinations();
  expect([header_names.toSorted(), timeout]).toEqual([['authorization', 'x-version'], 5]);
});

test('a destination that is not in the file is not deleted, even with --prune', async () => {
  await apply(shop, ['--yes'], { env });
  const empty = 'labels: { team: shop }\napplications: []\n';
  expect((await apply(empty, ['--prune', '--yes'])).code).toBe(0);
  expect(await destinations()).toHaveLength(1);
});

test('a change after the confirmation is not overwritten', async () => {
  await apply(shop, ['--yes'], { env });
  const [{ id, ...current }] = await destinations();
  const update = (timeout: number) =>
    fixture.server.call('PUT', `/destinations/${id}`, { key: fixture.key, body: { ...current, timeout } });
  const meanwhile = async () => {
    await update(9);
    return 'y';
  };
  const slower = shop.replace('    requests:', '    timeout: 5\n    requests:');
  const { code, err } = await apply(slower, [], { answers: [meanwhile] });
  expect([code, err]).toEqual([2, expect.stringContaining('changed after the plan was printed')]);
  expect((await destinations())[0].timeout).toBe(9);
});

test.each([
  [
    'an unknown name in a rule',
    shop.replace('[payments]', '[payment]'),
    'access.yaml:13: "shop" has a rule with the unknown destination "payment"',
  ],
  [
    'a secret in the file',
    shop.replace('{ env: PAYMENTS_KEY }', secret),
    '"payments": headers.authorization must be an object',
  ],
  [
    'a secret without a source',
    shop.replace('{ env: PAYMENTS_KEY }', '{}'),
    '"payments": headers.authorization must have either env or file',
  ],
  [
    'an unknown field',
    shop.replace('reply:', 'replies:'),
    '"payments": requests.0.replies is not a known field',
  ],
  [
    'a name that is used twice',
    shop.replace(
      'applications:',
      '  - { name: payments, origin: "https://b.example", requests: [{ method: GET, path: / }] }\napplications:',
    ),
    'the destination "payments" is in the files twice',
  ],
])('%s is an error, and no change is made', async (_, yaml, message) => {
  const { code, err } = await apply(yaml, ['--yes'], { env });
  expect([code, err]).toEqual([2, expect.stringContaining(message)]);
  expect(await destinations()).toEqual([]);
  expect(Object.keys(await applications())).toHaveLength(1);
});

test('another origin is an error, because rules would send the data elsewhere', async () => {
  await apply(shop, ['--yes'], { env });
  const { code, err } = await apply(shop.replace('payments.example', 'evil.example'), ['--yes'], { env });
  expect([code, err]).toEqual([4, expect.stringContaining('origin cannot be changed')]);
});
