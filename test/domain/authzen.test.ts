/** The mapping between AuthZEN and permissions, and the response bodies of the AuthZEN endpoints. */
import { describe, expect, test } from 'bun:test';
import {
  ActionResults,
  AuthZenDecision,
  AuthZenDecisions,
  actionOf,
  containerOf,
  EntityResults,
  limitOf,
  permissionOf,
  searchedKind,
} from '../../src/domain/authzen.ts';
import { check } from '../../src/domain/validate.ts';

describe('an action on a resource type is the permission', () => {
  test.each([
    ['read', 'token', 'token:read'],
    ['approve', 'invoice', 'invoice:approve'],
    ['token:read', 'token', 'token:read'],
    ['token:read', 'card', 'token:read'],
    ['invoice:line:read', 'invoice', 'invoice:line:read'],
    ['read', 'invoice:line', 'invoice:line:read'],
    ['GET', 'route', 'route:get'],
    ['Approve', 'Invoice', 'invoice:approve'],
    ['Invoice:Approve', 'route', 'Invoice:Approve'],
  ])('%s on %s: %s', (name, type, permission) => {
    expect(permissionOf({ name }, { type })).toBe(permission);
  });

  test.each([
    ['delete', true, 'record:soft-delete'],
    ['delete', false, 'record:delete'],
    ['record:delete', true, 'record:delete'],
  ])('%s with `soft` %p: %s', (name, soft, permission) => {
    expect(permissionOf({ name, properties: { soft } }, { type: 'record' })).toBe(permission);
  });
});

describe('the container of a resource that is not stored', () => {
  const container = '/customers/42/';
  test.each<[type: string, id: string, expected: string | undefined]>([
    ['route', '/todos/{todoId}', '/todos/todoId/'],
    ['route', '/todos/{todoId}/', '/todos/todoId/'],
    ['route', '/{a}/{b}/c', '/a/b/c/'],
    ['route', '/{a}{b}', undefined],
    ['route', '/todos', '/todos/'],
    ['route', '/Todos/7', '/Todos/7/'],
    ['route', '/', '/'],
    ['invoice', '/customers/42', '/customers/42/'],
    ['route', 'todos/7', undefined],
    ['invoice', '7', undefined],
    ['token', '/todos', undefined],
    ['route', '/todos/../users', undefined],
    ['route', '/todos//users', undefined],
    ['route', '//todos', undefined],
    ['route', '/todos?x=1', undefined],
    ['route', '/todos/%2e%2e/users', undefined],
    ['route', '/files/{proxy+}', undefined],
    ['route', '/todos/{}', undefined],
    ['route', '/todos/{a/b}', undefined],
    ['route', '/todos/x{a}', undefined],
    ['route', `/${'a/'.repeat(17)}`, undefined],
    ['route', `/${'a'.repeat(248)}`, `/${'a'.repeat(248)}/`],
    ['route', `/${'a'.repeat(249)}`, undefined],
  ])('%s %s: %p', (type, id, expected) => {
    expect(containerOf({ type, id, properties: undefined })).toBe(expected);
    expect(containerOf({ type, id, properties: { container } })).toBe(container);
  });
});

describe('a permission is the action', () => {
  const actions: [permission: string, type: string, name: string][] = [
    ['token:read', 'token', 'read'],
    ['invoice:approve', 'invoice', 'approve'],
    ['invoice:line:read', 'invoice', 'invoice:line:read'],
    ['invoice:line:read', 'invoice:line', 'read'],
  ];
  test.each(actions)('%s on %s: %s', (permission, type, name) => {
    expect(actionOf(permission, type)).toEqual({ name });
    expect(permissionOf({ name }, { type })).toBe(permission);
  });

  test.each([
    ['token:read', 'card'],
    ['tokens:read', 'token'],
    ['token:read', 'tok'],
    ['token:read', 'read'],
    ['token:read', 'Token'],
    ['token:read', ''],
  ])('%s on %j: none, because the type is another', (permission, type) => {
    expect(actionOf(permission, type)).toBeUndefined();
  });
});

describe('a subject search examines', () => {
  test.each<[string, ReturnType<typeof searchedKind>]>([
    ['application', { kind: 'application', byName: false }],
    ['session', { kind: 'session', byName: false }],
    ['user', { kind: 'application', byName: true }],
    ['identity', { kind: 'application', byName: true }],
    ['client', { kind: 'application', byName: true }],
    ['service', { kind: 'application', byName: true }],
    ['workload', { kind: 'application', byName: true }],
    ['agent', { kind: 'application', byName: true }],
    ['token', undefined],
    ['User', undefined],
    ['users', undefined],
    ['', undefined],
  ])('for the type %j: %j', (type, searched) => {
    expect(searchedKind(type)).toEqual(searched);
  });
});

test.each<[Parameters<typeof limitOf>[0], number]>([
  [{}, 100],
  [{ page: undefined }, 100],
  [{ page: {} }, 100],
  [{ page: { limit: undefined } }, 100],
  [{ page: { limit: 0 } }, 0],
  [{ page: { limit: 101 } }, 101],
  [{ page: { limit: 1000 } }, 1000],
  [{ page: { limit: 1001 } }, 1000],
])('a search with %j returns at most %i results', (body, limit) => {
  expect(limitOf(body)).toBe(limit);
});

const granted = {
  decision: true,
  context: {
    reason: 'rule 1 grants token:read',
    transform: 'reveal',
    rule: { of: 'session', rule: 1, description: 'Cards' },
    dpop: { nonce: 'n-1' },
  },
} as const;
const denied = {
  decision: false,
  context: { reason: 'not granted', missing: { permission: 'token:read', container: '/cards/' } },
} as const;
const invalid = {
  decision: false,
  context: { error: { status: 400, message: 'action is required' } },
} as const;
const entity = { type: 'user', id: 'Ada' };
const page = { next_token: '', count: 1 };

describe('a response has these fields and no others:', () => {
  test.each([
    ['a permitted evaluation', AuthZenDecision, granted],
    ['a denied evaluation', AuthZenDecision, denied],
    ['an invalid evaluation', AuthZenDecision, invalid],
    ['an evaluation without details', AuthZenDecision, { decision: false, context: {} }],
    ['several evaluations', AuthZenDecisions, { evaluations: [granted, denied, invalid] }],
    ['found subjects and resources', EntityResults, { page, results: [entity] }],
    ['found actions', ActionResults, { page, results: [{ name: 'read' }] }],
    ['nothing found yet', EntityResults, { page: { next_token: 'n', count: 0 }, results: [] }],
    ['no actions', ActionResults, { page: { next_token: '', count: 0 }, results: [] }],
  ])('%s', (_, schema, body) => {
    expect(schema.parse({ ...body, x: 1 }) as object).toStrictEqual(body);
  });

  test.each([
    ['a decision without a context', AuthZenDecision, { decision: true }, 'context is required'],
    ['a decision as text', AuthZenDecision, { ...denied, decision: 'no' }, 'decision must be true or false'],
    [
      'an error without a message',
      AuthZenDecision,
      { decision: false, context: { error: { status: 400 } } },
      'context.error.message is required',
    ],
    [
      'an error without a status',
      AuthZenDecision,
      { decision: false, context: { error: { message: 'x' } } },
      'context.error.status is required',
    ],
    [
      'a negative count',
      EntityResults,
      { page: { next_token: '', count: -1 }, results: [] },
      'page.count must be at least 0',
    ],
    ['results without a page', ActionResults, { results: [] }, 'page is required'],
    [
      'an entity without an id',
      EntityResults,
      { page, results: [{ type: 'user' }] },
      'results.0.id is required',
    ],
    ['an action without a name', ActionResults, { page, results: [{}] }, 'results.0.name is required'],
  ])('%s is invalid', (_, schema, body, error) => {
    const checked = check(schema, body);
    const faults = 'faults' in checked ? checked.faults : [];
    expect(faults.map(({ path, message }) => `${path.join('.')} ${message}`)).toEqual([error]);
  });
});
