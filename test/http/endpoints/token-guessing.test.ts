/** A caller that can change a part of the data learns nothing about the rest. */
import { describe, expect, test } from 'bun:test';
import { maxTokenBytes } from '../../../src/domain/token.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

const data = { name: 'Ada', cvc: '737' };
const mask = { name: '{{ data.name }}' };

describe.each(databases)('guessing data on %s', async (_, database) => {
  const server = await openTestServer(database);
  const management = (await server.tenant()).key;

  async function writer(transform: string): Promise<string> {
    const rules = [{ priority: 1, container: '/', transform, permissions: ['token:create', 'token:update'] }];
    return (await server.application(management, { permissions: [], rules })).key;
  }

  const patch = (key: string, id: string, body: object) =>
    server.call('PATCH', `/tokens/${id}`, { key, body });
  const rename = async (key: string, id: string, name: string) =>
    (await patch(key, id, { data: { name } })).status;

  test.each(['mask', 'redact'])('merging into data with the transform %s is denied', async (transform) => {
    const key = await writer(transform);
    const { body } = await server.call('POST', '/tokens', { key: management, body: { data, mask } });
    for (const guess of [{ name: '736' }, { name: '737' }, { cvc: null }, {}]) {
      const rejected = await patch(key, body.id, { data: guess });
      expect([rejected.status, rejected.body.code]).toEqual([403, 'reveal_required']);
    }
    for (const change of [{ metadata: { a: 'b' } }, { type: 'card' }, { expires_at: null }])
      expect((await patch(key, body.id, change)).status).toBe(200);
    const reader = await writer('reveal');
    expect((await patch(reader, body.id, { metadata: { a: 'c' } })).body.data).toEqual(data);
  });

  test.each([{}, { max_uses: 1 }])(
    'a whole object can be replaced in the way that the denial says: %j',
    async (fields) => {
      const key = await writer(Object.keys(fields).length === 0 ? 'mask' : 'reveal');
      const created = {
        data,
        mask,
        ...(!('max_uses' in fields) && { search: { name: '{{ data.name }}' } }),
        ...fields,
      };
      const { body } = await server.call('POST', '/tokens', { key: management, body: created });
      const replacement = { data: { name: 'Eve' }, mask: { name: '{{ data.name | first: 1 }}' } };
      const { detail } = (await patch(key, body.id, replacement)).body;
      const [, first = ''] = /first send `([^`]+)`/.exec(detail) ?? [];
      expect((await patch(key, body.id, JSON.parse(first))).status).toBe(200);
      const replaced = await patch(key, body.id, replacement);
      expect([replaced.status, replaced.body.data]).toEqual([200, { name: 'E' }]);
    },
  );

  test('responses to writers do not depend on the size of hidden data', async () => {
    const key = await writer('redact');
    const text = 'x'.repeat(maxTokenBytes / 2);
    const answers = [];
    for (const [id, hidden] of [
      ['small', { secret: 'x' }],
      ['large', { secret: text }],
    ] as const) {
      const created = { id, data: hidden, mask: { all: 'none' } };
      expect((await server.call('POST', '/tokens', { key: management, body: created })).status).toBe(201);
      const statuses = [];
      for (const change of [
        { data: { filler: text } },
        { data: { filler: text }, mask: null },
        { mask: '{{ data.secret | hide }}' },
        { mask: { all: 'more' } },
        { metadata: { a: 'b' } },
        { mask: null },
        { data: 'all of it' },
        { data: { anew: text } },
      ])
        statuses.push((await patch(key, id, change)).status);
      answers.push(statuses);
    }
    expect(answers[0]).toEqual([403, 403, 403, 403, 200, 200, 200, 200]);
    expect(answers[1]).toEqual(answers[0]);
  });

  test('a caller without reveal can replace an object with two patches', async () => {
    const key = await writer('redact');
    const { body } = await server.call('POST', '/tokens', { key: management, body: { data, mask } });
    expect((await patch(key, body.id, { data: '', mask: null })).status).toBe(200);
    const next = { data: { name: 'Grace', cvc: '123' }, mask };
    expect((await patch(key, body.id, next)).status).toBe(200);
    const { body: masked } = await server.call('GET', `/tokens/${body.id}`, { key: management });
    expect(masked.data).toEqual({ name: 'Grace' });
  });

  test('a caller with reveal can merge up to 1 MiB', async () => {
    const key = await writer('reveal');
    const half = 'x'.repeat(maxTokenBytes / 2);
    const { body } = await server.call('POST', '/tokens', { key: management, body: { data: { a: half } } });
    expect((await patch(key, body.id, { data: { b: half.slice(100) } })).status).toBe(200);
    const rejected = await patch(key, body.id, { data: { c: 'x'.repeat(200) } });
    expect([rejected.status, Object.keys(rejected.body.errors)]).toEqual([400, ['data']]);
  });

  test('a caller with reveal gets an error if a mask would show all data', async () => {
    const { body } = await server.call('POST', '/tokens', { key: management, body: { data, mask } });
    const key = await writer('reveal');
    expect(await rename(key, body.id, '736')).toBe(200);
    expect(await rename(key, body.id, '737')).toBe(400);
  });

  test('a caller that sends all data gets the same error', async () => {
    const key = await writer('redact');
    const { body } = await server.call('POST', '/tokens', {
      key: management,
      body: { data: ['x', 'y'], mask: '{{ data[0] }}' },
    });
    const replace = (next: string[]) =>
      server.call('PATCH', `/tokens/${body.id}`, { key, body: { data: next } });
    expect((await replace(['a', 'b'])).status).toBe(200);
    expect((await replace(['a', 'a'])).status).toBe(400);
    const whole = { data: { name: '737', cvc: '737' }, mask };
    expect((await server.call('POST', '/tokens', { key, body: whole })).status).toBe(400);
  });
});
