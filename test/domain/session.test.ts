import { describe, expect, test } from 'bun:test';
import type { Grants } from '../../src/domain/grant.ts';
import {
  appliesIn,
  longestSession,
  Session,
  SessionAuthorize,
  SessionCreated,
} from '../../src/domain/session.ts';
import { grants, when } from '../support/grants.ts';

test('a session lasts at most 365 days', () => {
  expect(longestSession).toBe(365 * 24 * 60 * 60 * 1000);
});

const made = { session_key: 'slp_ses', nonce: 'slp_non', expires_at: '2030-01-01T00:00:00.000Z' };

test('SessionCreated has the key, the nonce and the expiry', () => {
  expect(SessionCreated.parse(made)).toEqual(made);
  for (const field of Object.keys(made))
    expect(SessionCreated.safeParse({ ...made, [field]: undefined }).success).toBe(false);
});

test('SessionCreated has `bound` only if the session is bound', () => {
  expect(SessionCreated.parse({ ...made, bound: true }) as object).toEqual({ ...made, bound: true });
  expect(SessionCreated.safeParse({ ...made, bound: false }).success).toBe(false);
});

test('Session has the access, but not the key and the nonce', () => {
  const id = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
  const time = '2030-01-01T00:00:00.000Z';
  const pending = {
    id,
    tenant_id: id,
    application_id: id,
    kind: 'session',
    state: 'pending',
    permissions: [],
    rules: [],
    created_at: time,
    ceiling: false,
    bound: false,
    expires_at: time,
  };
  const active = { ...pending, state: 'active', authorized_at: time, authorized_by: id };
  for (const session of [pending, active, { ...active, quarantined_at: time }])
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
      subject: undefined,
      expires_at: undefined,
    });
  });

  test('can have an expiry', () => {
    const expiryOf = (expires_at: string | null) =>
      SessionAuthorize.parse({ nonce: 'n', expires_at }).expires_at;
    expect(expiryOf('2030-01-01T00:00:00Z')).toBe(Date.parse('2030-01-01T00:00:00Z'));
    expect(expiryOf(null)).toBeUndefined();
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

describe('the grants of a session', () => {
  const inContainer = (operator: 'starts_with' | 'equals', value: string) =>
    grants(when(['container', operator, value]));
  const elsewhere = when(['container', 'starts_with', '/customers/']);

  test.each<[string, Grants, string?]>([
    ['with a permission without a rule', grants('token:read')],
    ['with a permission without a rule, and a rule for another container', grants('token:read', elsewhere)],
    ['with a rule for it', inContainer('starts_with', '/pci/')],
    ['with a rule for it in another spelling', inContainer('starts_with', 'PCI')],
    ['with a rule for it, if it is given in another spelling', inContainer('equals', '/pci/'), 'Pci'],
    ['with a rule for the container above', inContainer('starts_with', '/pci/'), '/pci/high/'],
    ['with a rule for a container below', inContainer('starts_with', '/pci/high/')],
    ['with a rule for exactly this container', inContainer('equals', '/pci/')],
    ['with a rule for exactly a container below', inContainer('equals', '/pci/high/')],
    ['with a rule for one token', grants(when(['id', 'equals', 'Card-1']))],
    [
      'with a rule with two conditions on the id',
      grants(when(['id', 'starts_with', 'Card-'], ['id', 'equals', 'Card-1'])),
    ],
    [
      'with a rule for it after one for another container',
      grants(elsewhere, when(['container', 'equals', '/pci/'])),
    ],
    ['with a rule without conditions', grants({})],
  ])('apply in a container %s', (_, granted, container = '/pci/') => {
    expect(appliesIn(granted, container)).toBe(true);
  });

  test.each<[string, Grants, string?]>([
    ['without permissions and rules', grants(), '/'],
    ['with a rule for another container', grants(elsewhere)],
    ['with a rule for a container with a longer name', inContainer('starts_with', '/pci-other/')],
    ['with a rule for exactly the container above', inContainer('equals', '/pci/'), '/pci/high/'],
    [
      'with a rule for a token in another container',
      grants(when(['id', 'equals', 'card-1'], ['container', 'equals', '/customers/'])),
    ],
    [
      'with a rule whose conditions contradict each other',
      grants(when(['container', 'equals', '/pci/'], ['container', 'equals', '/customers/'])),
    ],
  ])('do not apply in a container %s', (_, granted, container = '/pci/') => {
    expect(appliesIn(granted, container)).toBe(false);
  });
});
