/**
 * The test cases of the AuthZEN 1.0 certification scenario (certification/authorization-api-1_0-scenario.md of the
 * repository openid/authzen), by the anchors of that document.
 */

/** The sections that each certification level consists of. */
export const levels = {
  'Basic Core': ['c-2-2-1', 'c-2-2-2', 'c-2-2-3', 'c-2-2-8', 'c-2-2-9', 'c-2-3', 'c-2-4', 'c-2-5', 'c-2-6'],
  'Basic Properties': ['c-2-2-4', 'c-2-2-5', 'c-2-2-6', 'c-2-2-7'],
  'Batch Core': ['c-3-2-1', 'c-3-2-2', 'c-3-2-5', 'c-3-2-6', 'c-3-3', 'c-3-4'],
  'Batch Properties': ['c-3-2-3', 'c-3-2-4', 'c-3-2-7'],
  'Search Core': [
    ...['c-4-2-1', 'c-4-2-2', 'c-4-2-3', 'c-4-3-1', 'c-4-3-2', 'c-4-3-3'],
    ...['c-4-4-1', 'c-4-4-2', 'c-4-5', 'c-4-6', 'c-4-7'],
  ],
  'Search Properties': ['c-4-2-4', 'c-4-3-4', 'c-4-4-3'],
  Discovery: ['c-6'],
};

export interface ScenarioCase {
  /** The anchor of a section, or of a part of one. */
  readonly id: string;
  readonly what: string;
  readonly path: string;
  readonly body: unknown;
  readonly headers?: Record<string, string>;
  readonly status: number;
  /** Decisions in order, or results that a search must contain. If undefined, only the structure is checked. */
  readonly expected?: readonly (boolean | undefined)[] | readonly object[];
}

const [alice, bob] = [
  { type: 'user', id: 'alice' },
  { type: 'user', id: 'bob' },
];
const admin = { ...bob, properties: { role: 'admin' } };
const [read, write] = [{ name: 'read' }, { name: 'write' }];
const deletion = (soft: boolean) => ({ name: 'delete', properties: { soft } });
const [one, two] = [
  { type: 'record', id: 'record-1' },
  { type: 'record', id: 'record-2' },
];
const activeOne = { ...one, properties: { status: 'active' } };
const archivedTwo = { ...two, properties: { status: 'archived' } };
const context = { time: '2025-06-27T18:03-07:00', ip: '192.168.1.1' };
export const entities = { alice, bob, admin, read, write, one, two, activeOne, archivedTwo, context };
const fixture = { subject: alice, action: read, resource: one };

const evaluation = '/access/v1/evaluation';
const evaluations = '/access/v1/evaluations';
const json = 'application/json';

function single(id: string, what: string, body: object, decision: boolean): ScenarioCase {
  return { id, what, path: evaluation, body, status: 200, expected: [decision] };
}

function invalid(id: string, what: string, path: string, body: unknown, type = json): ScenarioCase {
  return { id, what, path, body, headers: { 'Content-Type': type }, status: 400 };
}

function batch(
  id: string,
  what: string,
  body: object,
  expected: readonly (boolean | undefined)[],
): ScenarioCase {
  return { id, what, path: evaluations, body, status: 200, expected };
}

const basic: ScenarioCase[] = [
  single('c-2-2-1', 'permit', fixture, true),
  single('c-2-2-2', 'deny', { subject: bob, action: write, resource: one }, false),
  single('c-2-2-3', 'context', { ...fixture, context }, true),
  single('c-2-2-4', 'archived record', { subject: alice, action: write, resource: archivedTwo }, false),
  single('c-2-2-5', 'admin', { subject: admin, action: write, resource: archivedTwo }, true),
  single('c-2-2-6', 'soft deletion', { ...fixture, action: deletion(true) }, true),
  single('c-2-2-7', 'deletion', { ...fixture, action: deletion(false) }, false),
  single(
    'c-2-2-8',
    'additional properties',
    {
      subject: { ...alice, properties: { department: 'Sales', role: 'manager' } },
      action: { ...read, properties: { method: 'GET' } },
      resource: { ...one, properties: { status: 'active', owner: 'bob' } },
    },
    true,
  ),
  single('c-2-2-9', 'unknown fields', { ...fixture, foo: 'bar', futureField: { nested: true } }, true),
  single('c-2-6', 'first of three', fixture, true),
  single('c-2-6', 'second of three', fixture, true),
  single('c-2-6', 'third of three', fixture, true),
  invalid('c-2-4-1', 'missing subject', evaluation, { action: read, resource: one }),
  invalid('c-2-4-1', 'missing action', evaluation, { subject: alice, resource: one }),
  invalid('c-2-4-1', 'missing resource', evaluation, { subject: alice, action: read }),
  invalid('c-2-4-2', 'subject without type', evaluation, { ...fixture, subject: { id: 'alice' } }),
  invalid('c-2-4-2', 'subject without id', evaluation, { ...fixture, subject: { type: 'user' } }),
  invalid('c-2-4-2', 'action without name', evaluation, { ...fixture, action: {} }),
  invalid('c-2-4-2', 'resource without type', evaluation, { ...fixture, resource: { id: 'record-1' } }),
  invalid('c-2-4-2', 'resource without id', evaluation, { ...fixture, resource: { type: 'record' } }),
  invalid('c-2-4-3', 'content type text/plain', evaluation, JSON.stringify(fixture), 'text/plain'),
  invalid('c-2-4-3', 'content type of a form', evaluations, 'a=b', 'application/x-www-form-urlencoded'),
  invalid('c-2-4-4', 'malformed JSON', evaluation, '{"subject": '),
  invalid('c-2-4-5', 'empty body', evaluation, ''),
  invalid('c-2-4-6', 'subject is a string', evaluation, { ...fixture, subject: 'alice' }),
  invalid('c-2-4-6', 'action.name is a number', evaluation, { ...fixture, action: { name: 123 } }),
];

const batches: ScenarioCase[] = [
  batch(
    'c-3-2-1',
    'two resources',
    { subject: alice, action: read, evaluations: [{ resource: one }, { resource: two }] },
    [undefined, undefined],
  ),
  batch(
    'c-3-2-2',
    'two actions',
    { subject: bob, resource: one, evaluations: [{ action: read }, { action: write }] },
    [true, false],
  ),
  batch(
    'c-3-2-3',
    'resource properties',
    { subject: alice, action: write, evaluations: [{ resource: activeOne }, { resource: archivedTwo }] },
    [true, false],
  ),
  batch(
    'c-3-2-4',
    'subject properties',
    { action: write, resource: archivedTwo, evaluations: [{ subject: alice }, { subject: admin }] },
    [false, true],
  ),
  batch(
    'c-3-2-5',
    'no defaults',
    { evaluations: [fixture, { subject: bob, action: write, resource: one }] },
    [true, false],
  ),
  batch(
    'c-3-2-6',
    'context',
    {
      subject: alice,
      action: read,
      context,
      evaluations: [{ resource: one }, { resource: two, context: { source: 'batch-override' } }],
    },
    [undefined, undefined],
  ),
  batch(
    'c-3-2-7',
    'defaults',
    { subject: alice, action: write, resource: activeOne, evaluations: [{}, { resource: archivedTwo }] },
    [true, false],
  ),
  batch(
    'c-3-4-1',
    'invalid evaluation',
    {
      subject: alice,
      action: read,
      options: { evaluations_semantic: 'execute_all' },
      evaluations: [{ resource: one }, {}],
    },
    [true, false],
  ),
  { ...single('c-3-4-2', 'without evaluations', fixture, true), path: evaluations },
  { ...single('c-3-4-3', 'empty evaluations', { ...fixture, evaluations: [] }, true), path: evaluations },
];

const search = (entity: string) => `/access/v1/search/${entity}`;

function found(id: string, entity: string, body: object, expected: readonly object[]): ScenarioCase {
  return { id, what: `${entity} search`, path: search(entity), body, status: 200, expected };
}

const users = { subject: { type: 'user' }, action: read, resource: one };
const records = { subject: alice, action: read, resource: { type: 'record' } };
const actions = { subject: alice, resource: one };
const nobody = { type: 'user', id: 'nonexistent-user' };
const spaceship = { type: 'spaceship' };

const searches: ScenarioCase[] = [
  found('c-4-2-1', 'subject', users, [alice, bob]),
  found('c-4-2-2', 'subject', { ...users, context }, [alice, bob]),
  found('c-4-2-3', 'subject', { ...users, subject: alice }, [alice, bob]),
  found('c-4-2-4', 'subject', { ...users, action: write, resource: archivedTwo }, [bob]),
  found('c-4-3-1', 'resource', records, [one]),
  found('c-4-3-2', 'resource', { ...records, context }, [one]),
  found('c-4-3-3', 'resource', { ...records, resource: one }, [one]),
  found('c-4-3-4', 'resource', { ...records, subject: admin, action: write }, [two]),
  found('c-4-4-1', 'action', actions, [read, write]),
  found('c-4-4-2', 'action', { ...actions, context }, [read, write]),
  found('c-4-4-3', 'action', { subject: admin, resource: archivedTwo }, [write]),
  invalid('c-4-7-1', 'missing action', search('subject'), { subject: { type: 'user' }, resource: one }),
  invalid('c-4-7-1', 'missing subject', search('resource'), { action: read, resource: { type: 'record' } }),
  invalid('c-4-7-1', 'missing resource', search('action'), { subject: alice }),
  invalid('c-4-7-2', 'resource without id', search('subject'), { ...users, resource: { type: 'record' } }),
  invalid('c-4-7-2', 'subject without id', search('resource'), { ...records, subject: { type: 'user' } }),
  invalid('c-4-7-2', 'subject without id', search('action'), { ...actions, subject: { type: 'user' } }),
];

export const cases = [...basic, ...batches, ...searches];

/** Requests whose results must be empty. */
export const emptySearches: [path: string, body: object][] = [
  [search('subject'), { ...users, resource: { type: 'record', id: 'nonexistent-record' } }],
  [search('subject'), { ...users, subject: spaceship }],
  [search('subject'), { ...users, resource: { ...spaceship, id: 'record-1' } }],
  [search('resource'), { ...records, subject: nobody }],
  [search('resource'), { ...records, resource: spaceship }],
  [search('action'), { ...actions, subject: nobody }],
  [search('action'), { ...actions, resource: { ...spaceship, id: 'record-1' } }],
];

export { fixture as permittedRequest, users as subjectSearch };
