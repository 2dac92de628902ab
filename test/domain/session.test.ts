import { describe, expect, test } from 'bun:test';
import { SessionAuthorize, SessionCreated, sessionEnd } from '../../src/domain/session.ts';

test('a Session ends after its time, or with its Application if that is sooner', () => {
  expect(sessionEnd(1000, 180, undefined)).toBe(1180);
  expect(sessionEnd(1000, 180, 1100)).toBe(1100);
  expect(sessionEnd(1000, 180, 1180)).toBe(1180);
  expect(sessionEnd(1000, 180, 2000)).toBe(1180);
});

test('a new Session is shown with its key, its nonce and its end', () => {
  const made = { session_key: 'slp_ses', nonce: 'slp_non', expires_at: '2030-01-01T00:00:00.000Z' };
  expect(SessionCreated.parse(made)).toEqual(made);
  for (const field of Object.keys(made))
    expect(SessionCreated.safeParse({ ...made, [field]: undefined }).success).toBe(false);
});

describe('an authorization', () => {
  test('grants nothing, and ends nothing, of its own accord', () => {
    expect(SessionAuthorize.parse({ nonce: 'n' })).toEqual({
      nonce: 'n',
      permissions: [],
      rules: [],
      expires_at: undefined,
    });
  });

  test.each<[string, object]>([
    ['without a nonce', {}],
    ['with an empty nonce', { nonce: '' }],
    ['with a wrong moment', { nonce: 'n', expires_at: 'soon' }],
    ['with a field more', { nonce: 'n', key: 'x' }],
  ])('is refused %s', (_, body) => {
    expect(SessionAuthorize.safeParse(body).success).toBe(false);
  });
});
