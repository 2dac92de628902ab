import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { rawRequest, sendAndClose, sendRaw } from '../../support/raw-http.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

const fields = { name: 'x', type: 'private', permissions: ['token:read'] };
const json = (given: object = {}) => JSON.stringify({ ...fields, ...given });
const withRaw = (field: string, text: string) => `${json().slice(0, -1)},"${field}":${text}}`;
const rule = { priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] };

const badBodies: [what: string, body: string | Uint8Array, part: string][] = [
  ['text that is no JSON', 'hello', 'body'],
  ['JSON that breaks off', json().slice(0, -1), 'body'],
  ['JSON with something behind it', `${json()}x`, 'body'],
  ['JSON with a comment', `/* */${json()}`, 'body'],
  ['JSON with a trailing comma', withRaw('rules', '[],'), 'body'],
  ['single quotes', json().replaceAll('"', "'"), 'body'],
  ['a number that is none', withRaw('rules', 'NaN'), 'body'],
  ['a NUL alone', '\u0000', 'body'],
  ['white space', '   ', 'body'],
  ['bytes that are no UTF-8', new Uint8Array([0x22, 0xff, 0xfe, 0x22]), 'body'],
  ['UTF-8 that is cut', Buffer.from(json({ name: 'é' })).subarray(0, 11), 'body'],
  ['UTF-8 of a lone surrogate', new Uint8Array([0x22, 0xed, 0xa0, 0x80, 0x22]), 'body'],
  ['an overlong encoding', new Uint8Array([0x22, 0xc0, 0x80, 0x22]), 'body'],
  ['UTF-16', new Uint8Array(Buffer.from(json(), 'utf16le')), 'body'],
  ['sixty thousand brackets', '['.repeat(60_000), 'body'],
  ['a list nested thirty thousand deep', '['.repeat(30_000) + ']'.repeat(30_000), 'body'],
  ['a field nested too deep', withRaw('rules', '['.repeat(40) + ']'.repeat(40)), 'body'],
  ['objects nested six thousand deep', '{"a":'.repeat(6000) + 1 + '}'.repeat(6000), 'body'],
  ['a raw control character', json().replace('"x"', '"\u0001"'), 'body'],
  ['__proto__', withRaw('__proto__', '{"type":"management"}'), '__proto__'],
  ['constructor', withRaw('constructor', '{"prototype":{}}'), 'constructor'],
  ['toString', withRaw('toString', '1'), 'toString'],
  ['an empty field name', withRaw('', '1'), ''],
  ['a field name with a NUL', withRaw('\\u0000', '1'), '\u0000'],
  ['a field name of half a pair', withRaw('\\ud800', '1'), '\ud800'],
  ['__proto__ in a rule', withRaw('rules', '[{"__proto__":{}}]'), 'rules.0.__proto__'],
  ['a name with an escaped NUL', withRaw('name', '"\\u0000"'), 'name'],
  ['a name of half a pair', withRaw('name', '"\\ud83d"'), 'name'],
  ['a name of a pair the wrong way round', withRaw('name', '"\\ude00\\ud83d"'), 'name'],
  ['a list that is an object', withRaw('permissions', '{"length":1,"0":"token:read"}'), 'permissions'],
  ['9,000 permissions', json({ permissions: Array(9000).fill(1) }), 'permissions'],
  ['4,000 rules', json({ rules: Array(4000).fill({}) }), 'rules'],
  ['more than 10,000 values', json({ permissions: Array(10_000).fill(1) }), 'body'],
  ['more than 10,000 values with names', json({ rules: Array(3400).fill({ a: 1 }) }), 'body'],
  ['a priority without end', json({ rules: [rule] }).replace(':1,', ':1e400,'), 'rules.0.priority'],
  [
    'a priority of many digits',
    json({ rules: [rule] }).replace(':1,', `:${'9'.repeat(400)},`),
    'rules.0.priority',
  ],
  ['a priority next to one', json({ rules: [rule] }).replace(':1,', ':1.0000000001,'), 'rules.0.priority'],
];

/** Strings that often cause errors. */
const nasty = [
  '',
  '\u0000',
  '\ud800',
  '\udc00x',
  '__proto__',
  'constructor',
  '%',
  "'",
  '\\',
  '{{a}}',
  '../..',
];
const text = fc.oneof(fc.constantFrom(...nasty), fc.string({ unit: 'binary' }));
const { value: anyJson } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(null, true, 0, -1, 1.5, 2 ** 53, 1e308, -0),
    text,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(text, tie('value'), { maxKeys: 4 }),
  ),
}));
const or = (...good: unknown[]) => fc.oneof(fc.constantFrom(...good), anyJson);
const condition = fc.record(
  { attribute: or('id', 'container'), operator: or('equals'), value: fc.oneof(text, anyJson) },
  { requiredKeys: [] },
);
const anyRule = fc.record(
  {
    priority: or(1),
    description: fc.oneof(text, anyJson),
    container: or('/pci/', 'pci'),
    conditions: fc.oneof(fc.array(condition, { maxLength: 2 }), anyJson),
    transform: or('mask', 'reveal'),
    permissions: or(['token:read'], ['a:b']),
  },
  { requiredKeys: ['priority', 'transform'] },
);
const anyFields = fc.record(
  {
    nonce: fc.oneof(text, anyJson),
    name: fc.oneof(text, anyJson),
    type: or('private', 'public', 'management'),
    permissions: fc.oneof(fc.array(or('token:read', 'mine:x'), { maxLength: 3 }), anyJson),
    rules: fc.oneof(fc.array(anyRule, { maxLength: 2 }), anyJson),
    expires_at: or('2030-01-01T00:00:00Z', '2030-02-30T00:00:00Z'),
    extra: anyJson,
  },
  { requiredKeys: [] },
);
const settings = { seed: 20_261_115, numRuns: 80 };

describe.each(databases)('hostile input on %s', async (_, database) => {
  const server = await openTestServer(database);
  const key = (await server.tenant()).key;

  const everything = async () => (await server.call('GET', '/applications?size=100', { key })).body;

  test.each(badBodies)('%s is rejected without a change', async (_what, body, part) => {
    const before = await everything();
    const answer = await server.call('POST', '/applications', { key, body });
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors)).toContain(part);
    expect(await everything()).toEqual(before);
    expect(Object.hasOwn(Object.prototype, 'type')).toBe(false);
  });

  test('the last of two fields with the same name is used and validated', async () => {
    const answer = await server.call('POST', '/applications', { key, body: withRaw('name', '""') });
    expect(answer.status).toBe(400);
  });

  test('a random update is applied or changes nothing', async () => {
    const { id } = await server.application(key);
    const get = async () => (await server.call('GET', `/applications/${id}`, { key })).body;
    let last = await get();
    await fc.assert(
      fc.asyncProperty(fc.oneof(anyFields, anyJson), async (sent) => {
        const { status, body } = await server.call('PUT', `/applications/${id}`, {
          key,
          body: JSON.stringify(sent),
        });
        expect([200, 400]).toContain(status);
        if (status === 200) last = body;
      }),
      settings,
    );
    expect(await get()).toEqual(last);
  });

  test('a random create is applied or changes nothing', async () => {
    const before = await everything();
    await fc.assert(
      fc.asyncProperty(fc.oneof(anyFields, anyJson), async (sent) => {
        const { status, body } = await server.call('POST', '/applications', {
          key,
          body: JSON.stringify(sent),
        });
        expect([201, 400]).toContain(status);
        if (status === 400) return;
        expect(body.name).toBe((sent as typeof fields).name);
        await server.call('DELETE', `/applications/${body.id}`, { key });
      }),
      settings,
    );
    expect(await everything()).toEqual(before);
  });

  test('a random authorize does not use the nonce of another session', async () => {
    const web = await server.application(key, { type: 'public' });
    const { nonce } = (await server.call('POST', '/sessions', { key: web.key })).body;
    await fc.assert(
      fc.asyncProperty(fc.oneof(anyFields, anyJson), async (body) => {
        const answer = await server.call('POST', '/sessions/authorize', { key, body: JSON.stringify(body) });
        expect([400, 404]).toContain(answer.status);
      }),
      settings,
    );
    const body = { nonce, permissions: ['token:read'] };
    expect((await server.call('POST', '/sessions/authorize', { key, body })).status).toBe(204);
  });

  test('random bytes as a body are rejected', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 200 }), async (body) => {
        expect((await server.call('POST', '/applications', { key, body })).status).toBe(400);
      }),
      settings,
    );
  });

  test('a random query gets a response', async () => {
    const parameter = fc.tuple(
      fc.oneof(fc.constantFrom('page', 'size', 'start', 'id', 'type', 'name'), text),
      fc.oneof(fc.constantFrom('1', '100', 'public'), fc.stringMatching(/^[!-~]{0,8}$/), text),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(parameter, { maxLength: 3 }), async (parameters) => {
        const query = new URLSearchParams(parameters).toString();
        expect([200, 400]).toContain((await server.call('GET', `/applications?${query}`, { key })).status);
      }),
      settings,
    );
  });

  test('a random id is malformed or unknown', async () => {
    const segment = fc.stringMatching(/^[!-~]{1,60}$/).filter((text) => !/[?#/\\]|^key$/.test(text));
    await fc.assert(
      fc.asyncProperty(segment, async (id) => {
        const { status } = await rawRequest(server.url, `GET /applications/${id}`, [`SVC-API-KEY: ${key}`]);
        expect([400, 404]).toContain(status);
      }),
      settings,
    );
  });

  test('a random key is invalid', async () => {
    const almost = fc
      .tuple(fc.nat(key.length - 1), fc.constantFrom(...'aZ09_-'))
      .map(([at, by]) => key.slice(0, at) + by + key.slice(at + 1));
    const returned = fc.oneof(almost, fc.stringMatching(/^[!-~][ -~]{0,80}$/)).filter((text) => text !== key);
    await fc.assert(
      fc.asyncProperty(returned, async (text) => {
        const { status } = await rawRequest(server.url, 'GET /applications', [`SVC-API-KEY: ${text}`]);
        expect(status).toBe(401);
      }),
      settings,
    );
  });

  test.each([
    ['data', '"\\ud800"'],
    ['data', '[["x\\udc00"]]'],
    ['data', '{"a":{"\\ud800":1}}'],
    ['mask', '"\\ud800"'],
    ['mask', '{"\\udc00":"x"}'],
  ])('a token whose %s has a lone surrogate, as in %s, is rejected', async (field, text) => {
    const body = field === 'data' ? `{"data":${text}}` : `{"data":"x","mask":${text}}`;
    const answer = await server.call('POST', '/tokens', { key, body });
    expect([answer.status, Object.keys(answer.body.errors)]).toEqual([400, [field]]);
  });

  test('a body may be nested 32 levels deep', async () => {
    const nested = (levels: number, inmost: string) => '['.repeat(levels) + inmost + ']'.repeat(levels);
    for (const inmost of ['', '1', '{}']) {
      const levels = inmost === '{}' ? 30 : 31;
      const post = (data: string) => server.call('POST', '/tokens', { key, body: `{"data":${data}}` });
      expect((await post(nested(levels, inmost))).status).toBe(201);
      expect((await post(nested(levels + 1, inmost))).body.errors).toEqual({
        body: ['must not be nested deeper than 32 levels'],
      });
    }
  });

  test.each([
    ['brackets', '['.repeat(40)],
    ['an escaped quote before brackets', `"${'['.repeat(40)}`],
    ['a backslash at its end', `${'{'.repeat(40)}\\`],
    ['a backslash and a quote at its end', `${'{'.repeat(40)}\\"`],
    ['many escaped quotes', '"['.repeat(40)],
  ])('a text with %s is not nested', async (_, text) => {
    const body = JSON.stringify({ data: [text, { [text]: 1 }] });
    expect((await server.call('POST', '/tokens', { key, body })).status).toBe(201);
    const tooDeep = JSON.stringify({ data: text }).replace(
      /}$/,
      `,"mask":${'['.repeat(33)}${']'.repeat(33)}}`,
    );
    expect((await server.call('POST', '/tokens', { key, body: tooDeep })).body.errors).toEqual({
      body: ['must not be nested deeper than 32 levels'],
    });
  });

  test('an incomplete body changes nothing and logs no error', async () => {
    const before = await everything();
    const head = `POST /applications HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${key}\r\nContent-Type: application/json\r\n`;
    await sendAndClose(server.url, `${head}Content-Length: 500\r\n\r\n${json()}`);
    await sendAndClose(server.url, `${head}Transfer-Encoding: chunked\r\n\r\nff\r\n${json()}`);
    await sendRaw(server.url, `${head}Transfer-Encoding: chunked\r\n\r\nzz\r\n${json()}`);
    expect(await everything()).toEqual(before);
    expect(server.logged.filter((line) => line.includes('"error"'))).toEqual([]);
  });
});
