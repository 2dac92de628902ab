/** Who may change a part of the data, and not see the rest, learns nothing of the rest by changing. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { databases, openWorld, type World } from '../support/world.ts';

const data = { name: 'Ada', cvc: '737' };
const mask = { name: '{{ data.name }}' };

describe.each(databases)('guessing at data on %s', (_, database) => {
  let world: World;
  let management: string;
  beforeAll(async () => {
    world = await openWorld(database);
    management = (await world.tenant()).key;
  });
  afterAll(() => world.close());

  async function writer(transform: string): Promise<string> {
    const rules = [{ priority: 1, container: '/', transform, permissions: ['token:create', 'token:update'] }];
    return (await world.application(management, { permissions: [], rules })).key;
  }

  const rename = async (key: string, id: string, name: string) =>
    (await world.call('PATCH', `/tokens/${id}`, { key, body: { data: { name } } })).status;

  test.each(['mask', 'redact'])(
    'a right guess is answered like a wrong one, seen by %s',
    async (transform) => {
      const key = await writer(transform);
      const { body } = await world.call('POST', '/tokens', { key: management, body: { data, mask } });
      const answers = await Promise.all(['736', '737', '738'].map((guess) => rename(key, body.id, guess)));
      expect(answers).toEqual([200, 200, 200]);
      expect(await rename(key, body.id, '737')).toBe(200);
      for (const patch of [{ metadata: { a: 'b' } }, { data: {} }, { expires_at: '2030-01-01T00:00:00Z' }])
        expect((await world.call('PATCH', `/tokens/${body.id}`, { key, body: patch })).status).toBe(200);
    },
  );

  test('who sees the data is still told that a mask would show all of it', async () => {
    const { body } = await world.call('POST', '/tokens', { key: management, body: { data, mask } });
    const key = await writer('reveal');
    expect(await rename(key, body.id, '736')).toBe(200);
    expect(await rename(key, body.id, '737')).toBe(400);
  });

  test('so is who sends all of the data', async () => {
    const key = await writer('redact');
    const { body } = await world.call('POST', '/tokens', {
      key: management,
      body: { data: ['x', 'y'], mask: '{{ data[0] }}' },
    });
    const replace = (next: string[]) =>
      world.call('PATCH', `/tokens/${body.id}`, { key, body: { data: next } });
    expect((await replace(['a', 'b'])).status).toBe(200);
    expect((await replace(['a', 'a'])).status).toBe(400);
    const whole = { data: { name: '737', cvc: '737' }, mask };
    expect((await world.call('POST', '/tokens', { key, body: whole })).status).toBe(400);
  });
});
