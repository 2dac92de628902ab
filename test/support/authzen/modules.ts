/**
 * The 127 modules of the AuthZEN plans in the OpenID conformance suite (openid-certification/conformance-suite,
 * August 2026), by the names that follow `authzen-pdp-`: what each sends, and what it accepts.
 */
import { entities } from './scenario.ts';

export interface Module {
  readonly name: string;
  readonly endpoint: Endpoint;
  readonly body: unknown;
  readonly method?: 'GET' | 'PUT';
  readonly headers?: Record<string, string>;
  readonly credentials?: 'none' | 'invalid';
  /** The number of equal requests. Each must get an equal response. */
  readonly times?: number;
  /** Requests the next page until there is none, and joins the results. */
  readonly isPaged?: boolean;
  /** Statuses, decisions in order, or results that the response must contain. */
  readonly expected: readonly number[] | readonly boolean[] | readonly object[];
}

export type Endpoint = 'evaluation' | 'evaluations' | 'subject-search' | 'resource-search' | 'action-search';

const { alice, bob, admin, read, write, one, two, activeOne, archivedTwo, context } = entities;
const fixture = { subject: alice, action: read, resource: one };
const denied = { subject: bob, action: write, resource: one };
const pair = { subject: bob, resource: one, evaluations: [{ action: read }, { action: write }] };
const users = { subject: { type: 'user' }, action: read, resource: one };
const records = { subject: alice, action: read, resource: { type: 'record' } };
const actions = { subject: alice, resource: one };
const both = [alice, bob];
const names = [read, write];
const unknown = { foo: 'bar', futureField: { nested: true } };
const ignored = { customAttr: 'ignored', anotherUnknown: [1, { k: 'v' }] };
const json = 'application/json';
const stray = 'ignored-stray-id';

/** A valid request to each endpoint, with what it must return. */
const valid: Record<Endpoint, [body: object, expected: Module['expected']]> = {
  evaluation: [fixture, [true]],
  evaluations: [pair, [true, false]],
  'subject-search': [users, both],
  'resource-search': [records, [one]],
  'action-search': [actions, names],
};

/** The modules that every endpoint has. */
const common = (Object.keys(valid) as Endpoint[]).flatMap((endpoint): Module[] => {
  const [body, expected] = valid[endpoint];
  const module = (name: string, changes: Partial<Module>): Module => ({
    ...{ name: `${endpoint}-${name}`, endpoint, body, expected },
    ...changes,
  });
  const notFound = [400, 404, 405];
  return [
    module('accept-content-type-with-charset', { headers: { 'Content-Type': `${json}; charset=utf-8` } }),
    module('idempotency', { times: 3 }),
    module('reject-empty-body', { body: '', expected: [400] }),
    module('reject-get-method', { method: 'GET', expected: notFound }),
    module('reject-malformed-json', {
      body: '{"subject": {"type": "user", "id": "alice"}, x',
      expected: [400],
    }),
    module('reject-non-json-content-type', {
      headers: { 'Content-Type': 'text/plain' },
      body: JSON.stringify(body),
      expected: [400, 415],
    }),
    module('reject-put-method', { method: 'PUT', expected: notFound }),
    module('reject-top-level-array', { body: [body], expected: [400] }),
    module('unknown-top-level-fields-ignored', { body: { ...body, ...unknown } }),
    module('x-request-id-echoed', { headers: { 'X-Request-ID': 'f3a1c2' } }),
  ];
});

type Row = [name: string, body: unknown, expected: Module['expected'], changes?: Partial<Module>];
const bad = [400];

const evaluation: Row[] = [
  ['fixture-request-permit-decision', fixture, [true]],
  ['fixture-request-deny-decision', denied, [false]],
  ['fixture-request-deny-based-on-properties', { ...fixture, action: write, resource: archivedTwo }, [false]],
  [
    'fixture-request-permit-based-on-subject-properties',
    { subject: admin, action: write, resource: archivedTwo },
    [true],
  ],
  ...[true, false].map((soft): Row => {
    const action = { name: 'delete', properties: { soft } };
    const name = `fixture-request-${soft ? 'permit' : 'deny'}-based-on-action-properties`;
    return [name, { ...fixture, action }, [soft]];
  }),
  ['request-with-optional-context', { ...fixture, context }, [true]],
  [
    'request-with-additional-properties',
    {
      subject: { ...alice, properties: { department: 'Sales', role: 'manager' } },
      action: { ...read, properties: { method: 'GET' } },
      resource: { ...one, properties: { status: 'active', owner: 'bob' } },
    },
    [true],
  ],
  ['unknown-subject-fields-ignored', { ...fixture, subject: { ...alice, ...ignored } }, [true]],
  ['unknown-action-fields-ignored', { ...fixture, action: { ...read, ...ignored } }, [true]],
  ['unknown-resource-fields-ignored', { ...fixture, resource: { ...one, ...ignored } }, [true]],
  ['missing-subject', { action: read, resource: one }, bad],
  ['missing-action', { subject: alice, resource: one }, bad],
  ['missing-resource', { subject: alice, action: read }, bad],
  ['subject-missing-type', { ...fixture, subject: { id: 'alice' } }, bad],
  ['subject-missing-id', { ...fixture, subject: { type: 'user' } }, bad],
  ['action-missing-name', { ...fixture, action: {} }, bad],
  ['resource-missing-type', { ...fixture, resource: { id: 'record-1' } }, bad],
  ['resource-missing-id', { ...fixture, resource: { type: 'record' } }, bad],
  ['subject-is-string', { ...fixture, subject: 'alice' }, bad],
  ['action-name-is-number', { ...fixture, action: { name: 123 } }, bad],
  ['missing-credentials-returns-401', fixture, [401], { credentials: 'none' }],
  ['invalid-credentials-returns-401', fixture, [401], { credentials: 'invalid' }],
];

const reads = { subject: alice, action: read };
const semantic = (evaluations_semantic: string) => ({ options: { evaluations_semantic } });

const evaluations: Row[] = [
  [
    'batch-request-with-evaluations-array',
    { ...reads, evaluations: [{ resource: one }, { resource: two }] },
    [true, true],
  ],
  [
    'batch-with-context-inheritance',
    { ...reads, context, evaluations: [{ resource: one }, { resource: two, context: { source: 'x' } }] },
    [true, true],
  ],
  [
    'batch-with-default-value-merging',
    {
      subject: alice,
      action: write,
      resource: { type: 'record' },
      evaluations: [
        { resource: { id: 'record-1', properties: { status: 'active' } } },
        { resource: archivedTwo },
      ],
    },
    [true, false],
  ],
  ['batch-with-fixture-decisions-validated', pair, [true, false]],
  ['batch-with-fully-specified-evaluations', { evaluations: [fixture, denied] }, [true, false]],
  [
    'batch-with-properties-validated',
    { subject: alice, action: write, evaluations: [{ resource: activeOne }, { resource: archivedTwo }] },
    [true, false],
  ],
  [
    'batch-with-subject-properties-validated',
    { action: write, resource: archivedTwo, evaluations: [{ subject: alice }, { subject: admin }] },
    [false, true],
  ],
  ['default-semantic-is-execute-all', pair, [true, false]],
  ['execute-all-explicit', { ...pair, ...semantic('execute_all') }, [true, false]],
  [
    'deny-on-first-deny',
    { ...pair, evaluations: [...pair.evaluations, { action: read }], ...semantic('deny_on_first_deny') },
    [true, false],
  ],
  [
    'permit-on-first-permit',
    { ...pair, evaluations: [{ action: write }, ...pair.evaluations], ...semantic('permit_on_first_permit') },
    [false, true],
  ],
  ['unknown-semantic-value', { ...pair, ...semantic('bogus_value') }, bad],
  ['empty-evaluations-array-backward-compat', { ...fixture, evaluations: [] }, [true]],
  ['missing-evaluations-array-backward-compat', fixture, [true]],
  ['evaluation-level-errors', { ...reads, evaluations: [{ resource: one }, {}] }, [true, false]],
  ['missing-subject-returns-decision-false', { action: read, evaluations: [{ resource: one }] }, [false]],
  ['per-eval-overrides-default', { ...denied, evaluations: [{ action: read }, {}] }, [true, false]],
];

const subjects: Row[] = [
  ['valid-subject-search-request-with-non-empty-results', users, both],
  ['subject-search-with-subject-id-omitted', users, both],
  ['extra-subject-id-ignored', { ...users, subject: { type: 'user', id: stray } }, both],
  ['subject-search-with-context', { ...users, context }, both],
  ['subject-search-with-resource-properties', { ...users, action: write, resource: archivedTwo }, [bob]],
  ['request-with-page-limit', { ...users, page: { limit: 1 } }, both, { isPaged: true }],
  ['unknown-page-fields-ignored', { ...users, page: { limit: 10, ...ignored } }, both],
  ['unknown-entity-type', { ...users, subject: { type: 'spaceship' } }, []],
  ['missing-action', { subject: { type: 'user' }, resource: one }, bad],
  ['missing-resource', { subject: { type: 'user' }, action: read }, bad],
  ['action-is-string', { ...users, action: 'read' }, bad],
  ['action-missing-name', { ...users, action: {} }, bad],
  ['subject-missing-type', { ...users, subject: {} }, bad],
  ['resource-missing-type', { ...users, resource: { id: 'record-1' } }, bad],
  ['resource-missing-id', { ...users, resource: { type: 'record' } }, bad],
];

const resources: Row[] = [
  ['valid-resource-search-request-with-non-empty-results', records, [one]],
  ['resource-search-with-resource-id-omitted', records, [one]],
  ['extra-resource-id-ignored', { ...records, resource: { type: 'record', id: stray } }, [one]],
  ['resource-search-with-subject-properties', { ...records, subject: admin, action: write }, [two]],
  ['missing-subject', { action: read, resource: { type: 'record' } }, bad],
  ['missing-action', { subject: alice, resource: { type: 'record' } }, bad],
  ['missing-resource', { subject: alice, action: read }, bad],
  ['action-missing-name', { ...records, action: {} }, bad],
  ['subject-missing-id', { ...records, subject: { type: 'user' } }, bad],
  ['resource-missing-type', { ...records, resource: {} }, bad],
];

const actionSearches: Row[] = [
  ['valid-action-search-request-with-non-empty-results', actions, names],
  ['action-search-with-context', { ...actions, context }, names],
  ['action-search-with-properties', { subject: admin, resource: archivedTwo }, [write]],
  ['extra-action-ignored', { ...actions, action: read }, names],
  ['unknown-entity-identifier', { ...actions, subject: { type: 'user', id: 'nonexistent-user' } }, []],
  ['missing-subject', { resource: one }, bad],
  ['missing-resource', { subject: alice }, bad],
  ['subject-is-string', { ...actions, subject: 'alice' }, bad],
  ['subject-missing-id', { ...actions, subject: { type: 'user' } }, bad],
  ['subject-missing-type', { ...actions, subject: { id: 'alice' } }, bad],
  ['resource-missing-id', { ...actions, resource: { type: 'record' } }, bad],
  ['resource-missing-type', { ...actions, resource: { id: 'record-1' } }, bad],
];

const own: Record<Endpoint, Row[]> = {
  evaluation,
  evaluations,
  'subject-search': subjects,
  'resource-search': resources,
  'action-search': actionSearches,
};

const specific = (Object.entries(own) as [Endpoint, Row[]][]).flatMap(([endpoint, rows]) =>
  rows.map(
    ([name, body, expected, changes]): Module => ({
      ...{ name: `${endpoint}-${name}`, endpoint, body, expected },
      ...changes,
    }),
  ),
);

export const modules: readonly Module[] = [...common, ...specific];
