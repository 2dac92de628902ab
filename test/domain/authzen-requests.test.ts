/** The request bodies of the AuthZEN endpoints. */
import { describe, expect, test } from 'bun:test';
import type { z } from 'zod';
import {
  ActionSearch,
  EvaluationRequest,
  EvaluationsRequest,
  ResourceSearch,
  SubjectSearch,
  semantics,
} from '../../src/domain/authzen.ts';
import { check } from '../../src/domain/validate.ts';
import { unknownKey } from '../support/keys.ts';

/** The parsed request, or the errors as `path message`. */
function parse(schema: z.ZodType, value: unknown): unknown {
  const checked = check(schema, value);
  if ('data' in checked) return checked.data;
  return checked.faults.map(({ path, message }) => `${path.join('.')} ${message}`);
}

const key = unknownKey('pvt').secret.reveal();
const proof = { jwt: 'a.b.c', method: 'GET', url: 'https://api.example.com/cards', request: 'r-1' };
const subject = { type: 'session', id: 's-1', properties: { credential: key, proof } };
const action = { name: 'read' };
const resource = { type: 'token', id: 'card-1', properties: { container: '/cards/' } };
const context = { time: '2030-01-01T00:00:00Z', nested: { list: [1, null] } };
const page = { token: 'next', limit: 10 };
const evaluation = { subject, action, resource, context };

const requests: [name: string, schema: z.ZodType, body: Record<string, unknown>][] = [
  ['an evaluation', EvaluationRequest, evaluation],
  [
    'several evaluations',
    EvaluationsRequest,
    { ...evaluation, evaluations: [{ action }], options: { evaluations_semantic: 'deny_on_first_deny' } },
  ],
  ['a subject search', SubjectSearch, { ...evaluation, subject: { type: 'user' }, page }],
  [
    'a resource search',
    ResourceSearch,
    { ...evaluation, resource: { type: 'token', properties: resource.properties }, page },
  ],
  ['an action search', ActionSearch, { subject, resource, context, page }],
];

describe.each(requests)('%s', (_, schema, body) => {
  test('returns every known field and drops the others', () => {
    const spoiled = (value: unknown): unknown =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? { ...Object.fromEntries(Object.entries(value).map(([name, part]) => [name, spoiled(part)])), x: 1 }
        : value;
    const { context: _, ...known } = body;
    expect(parse(schema, { ...(spoiled(known) as object), context })).toStrictEqual(body);
  });

  test('must be an object', () => {
    for (const other of ['x', 1, [], null]) expect(parse(schema, other)).toEqual([' must be an object']);
  });
});

describe('required fields:', () => {
  test.each<[string, z.ZodType, string[]]>([
    ['an evaluation', EvaluationRequest, ['subject', 'action', 'resource']],
    ['a subject search', SubjectSearch, ['subject', 'action', 'resource']],
    ['a resource search', ResourceSearch, ['subject', 'action', 'resource']],
    ['an action search', ActionSearch, ['subject', 'resource']],
  ])('%s', (_, schema, fields) => {
    expect(parse(schema, {})).toEqual(fields.map((field) => `${field} is required`));
  });

  const empty = { subject: {}, action: {}, resource: {} };
  test.each<[string, z.ZodType, string[]]>([
    [
      'the parts of an evaluation',
      EvaluationRequest,
      ['subject.type', 'subject.id', 'action.name', 'resource.type', 'resource.id'],
    ],
    [
      'the parts of a subject search, without the id of the subject',
      SubjectSearch,
      ['subject.type', 'action.name', 'resource.type', 'resource.id'],
    ],
    [
      'the parts of a resource search, without the id of the resource',
      ResourceSearch,
      ['subject.type', 'subject.id', 'action.name', 'resource.type'],
    ],
    [
      'the parts of an action search',
      ActionSearch,
      ['subject.type', 'subject.id', 'resource.type', 'resource.id'],
    ],
  ])('%s', (_, schema, fields) => {
    expect(parse(schema, empty)).toEqual(fields.map((field) => `${field} is required`));
  });
});

test('null means absent for every optional field', () => {
  const nothing = { credential: null, proof: null };
  const body = {
    subject: { type: 'user', id: 'Ada', properties: nothing },
    action,
    resource: { type: 'token', id: 'card-1', properties: { container: null } },
    context: null,
    page: { token: null, limit: null },
  };
  const parsed = {
    subject: { type: 'user', id: 'Ada', properties: {} },
    resource: { type: 'token', id: 'card-1', properties: {} },
    page: {},
  };
  expect(parse(ActionSearch, body)).toEqual(parsed);
  const absent = { subject: null, action: null, resource: null, evaluations: null, options: null };
  expect(parse(EvaluationsRequest, absent)).toEqual({});
  expect(parse(EvaluationsRequest, { options: { evaluations_semantic: null } })).toEqual({ options: {} });
});

/** Sets one field of an evaluation, such as `subject.id`. */
function evaluationWith(path: string, value: unknown): unknown {
  const [part, field] = path.split('.') as ['subject' | 'action' | 'resource', string];
  return { ...evaluation, [part]: { ...evaluation[part], [field]: value } };
}

describe.each(['subject.type', 'subject.id', 'action.name', 'resource.type', 'resource.id'])('%s', (path) => {
  test.each(['', 'x'.repeat(500), 'größe', '😀 two words'])('can be %p', (text) => {
    const request = evaluationWith(path, text);
    expect(parse(EvaluationRequest, request)).toEqual(request);
  });

  test.each<[unknown, string]>([
    ['x'.repeat(501), 'must have at most 500 characters'],
    ['half a pair \ud83d', 'must be well-formed Unicode'],
    [7, 'must be a string'],
    [null, 'must be a string'],
  ])('cannot be %p', (value, message) => {
    expect(parse(EvaluationRequest, evaluationWith(path, value))).toEqual([`${path} ${message}`]);
  });
});

test('an id must not contain a key, which belongs into the credential', () => {
  for (const path of ['subject.id', 'resource.id'])
    expect(parse(EvaluationRequest, evaluationWith(path, `is ${key}`))).toEqual([
      `${path} must not contain a key: send it as properties.credential`,
    ]);
});

describe('properties are validated:', () => {
  test.each<[path: string, properties: unknown, error: string]>([
    ['subject.properties', [], 'subject.properties must be an object'],
    ['subject.properties', { credential: 1 }, 'subject.properties.credential must be a string'],
    [
      'subject.properties',
      { proof: { ...proof, jwt: undefined } },
      'subject.properties.proof.jwt is required',
    ],
    ['resource.properties', '/cards/', 'resource.properties must be an object'],
    [
      'resource.properties',
      { container: '/cards//' },
      'resource.properties.container must be a path such as /pci/high/, with letters, digits, - and _',
    ],
  ])('%s %j', (path, properties, error) => {
    expect(parse(EvaluationRequest, evaluationWith(path, properties))).toEqual([error]);
  });
});

test('a resource search validates the container', () => {
  const search = { subject, action, resource: { type: 'token', properties: { container: 'a b' } } };
  expect(parse(ResourceSearch, search)).toEqual([
    'resource.properties.container must be a path such as /pci/high/, with letters, digits, - and _',
  ]);
});

test('the id of what a search finds is ignored, even if it is invalid', () => {
  const search = { subject, action, resource };
  for (const id of [1, 'x'.repeat(501), key]) {
    expect(parse(SubjectSearch, { ...search, subject: { type: 'user', id } })).toEqual({
      ...search,
      subject: { type: 'user' },
    });
    expect(parse(ResourceSearch, { ...search, resource: { type: 'token', id } })).toEqual({
      ...search,
      resource: { type: 'token' },
    });
  }
});

test('the context must be an object', () => {
  for (const [, schema, body] of requests.filter(([, schema]) => schema !== EvaluationsRequest))
    for (const other of ['x', [], 1])
      expect(parse(schema, { ...body, context: other })).toEqual(['context must be an object']);
});

describe('several evaluations', () => {
  test('are at most 100', () => {
    const evaluations = Array.from({ length: 101 }, () => ({}));
    expect(parse(EvaluationsRequest, { evaluations: evaluations.slice(1) })).toEqual({
      evaluations: evaluations.slice(1),
    });
    expect(parse(EvaluationsRequest, { evaluations })).toEqual(['evaluations must have at most 100 entries']);
    expect(parse(EvaluationsRequest, { evaluations: {} })).toEqual(['evaluations must be a list']);
  });

  test('are not validated with the request, so that an invalid one does not reject the others', () => {
    const evaluations = [null, 1, 'x', [], { subject: 1 }, evaluation];
    expect(parse(EvaluationsRequest, { evaluations })).toEqual({ evaluations });
  });

  test('have the three semantics of the standard', () => {
    expect([...semantics]).toEqual(['execute_all', 'deny_on_first_deny', 'permit_on_first_permit']);
    for (const evaluations_semantic of semantics)
      expect(parse(EvaluationsRequest, { options: { evaluations_semantic } })).toEqual({
        options: { evaluations_semantic },
      });
    expect(parse(EvaluationsRequest, { options: { evaluations_semantic: 'first' } })).toEqual([
      'options.evaluations_semantic must be one of execute_all, deny_on_first_deny, permit_on_first_permit',
    ]);
    expect(parse(EvaluationsRequest, { options: 'execute_all' })).toEqual(['options must be an object']);
  });
});

describe('the page of a search', () => {
  const search = { subject, action, resource };
  const schemas = [SubjectSearch, ResourceSearch, ActionSearch];

  test.each([0, 1, 1_000_000])('can have the limit %p', (limit) => {
    for (const schema of schemas)
      expect(parse(schema, { ...search, page: { limit } })).toMatchObject({ page: { limit } });
  });

  test.each<[unknown, string]>([
    [{ limit: -1 }, 'page.limit must be at least 0'],
    [{ limit: 1.5 }, 'page.limit must be an integer'],
    [{ limit: '5' }, 'page.limit must be a number'],
    [{ token: 5 }, 'page.token must be a string'],
    ['next', 'page must be an object'],
  ])('cannot be %j', (page, error) => {
    for (const schema of schemas) expect(parse(schema, { ...search, page })).toEqual([error]);
  });
});
