import { describe, expect, test } from 'bun:test';
import { Session, SessionAuthorize, SessionCreated } from '../../src/domain/session.ts';

test('SessionCreated has the key, the nonce and the expiry', () => {
  const made = { session_key: 'slp_ses', nonce: 'slp_non', expires_at: '2030-01-01T00:00:00.000Z' };
  expect(SessionCreated.parse(made)).toEqual(made);
  for (const field of Object.keys(made))
    expect(SessionCreated.safeParse({ ...made, [field]: undefined }).success).toBe(false);
});

test('Session has the access, but not the key and the nonce', () => {
  const id = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
  const time = '2030-01-01T00:00:00.000Z';
  const pending = {
    id,
    tenant_id: id,
    application_id: id,
    state: 'pending',
    permissions: [],
    rules: [],
    created_at: time,
    ceiling: false,
    bound: false,
    expires_at: time,
  };
  const active = { ...pending, state: 'active', authorized_at: time, authorized_by: id };
  for (const session of [pending, active])
    expect(Session.parse({ ...session, session_key: 'slp_ses', nonce: 'slp_non' }) as object).toEqual(
      session,
    );
  for (const field of Object.keys(pending))
    expect(Session.safeParse({ ...pending, [field]: undefined }).success).toBe(false);
  for (const state of ['', 'ended']) expect(Session.safeParse({ ...pending, state }).success).toBe(false);
});

describe('authorizing a session', () => {
  test('has no default grants and no default expiry', () => {
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
    ['with an invalid expires_at', { nonce: 'n', expires_at: 'soon' }],
    ['with an unknown field', { nonce: 'n', key: 'x' }],
  ])('is rejected %s', (_, body) => {
    expect(SessionAuthorize.safeParse(body).success).toBe(false);
  });
});
