/** The AuthZEN 1.0 certification scenario, and the modules of the conformance suite. */
import { describe, expect, test } from 'bun:test';
import { loadFixture } from '../../../support/authzen/fixture.ts';
import { type Endpoint, type Module, modules } from '../../../support/authzen/modules.ts';
import {
  cases,
  emptySearches,
  levels,
  permittedRequest,
  type ScenarioCase,
  subjectSearch,
} from '../../../support/authzen/scenario.ts';
import { type ApiResponse, databases, openTestServer } from '../../../support/test-server.ts';

const base = 'https://pdp.example.com';
/** Sections that apply to responses in general, tested below or with every case. */
const general = ['c-2-3', 'c-2-5', 'c-3-3', 'c-4-5', 'c-4-6', 'c-6'];

test('every section of every level is covered', () => {
  const covered = [...cases.map(({ id }) => id), ...general];
  const missing = Object.values(levels)
    .flat()
    .filter((section) => !covered.some((id) => id === section || id.startsWith(`${section}-`)));
  expect(missing).toEqual([]);
});

test('the modules of the conformance suite have different names', () => {
  expect(new Set(modules.map(({ name }) => name)).size).toBe(127);
});

const paths: Record<Endpoint, string> = {
  evaluation: '/access/v1/evaluation',
  evaluations: '/access/v1/evaluations',
  'subject-search': '/access/v1/search/subject',
  'resource-search': '/access/v1/search/resource',
  'action-search': '/access/v1/search/action',
};

describe.each(databases)('the AuthZEN certification scenario on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_PUBLIC_URL: base });
  const management = (await server.tenant()).key;
  await loadFixture((...asked) => server.call(...asked), management);
  const permissions = ['decision:create', 'access:review'];
  const key = (await server.application(management, { name: 'gateway', permissions })).key;

  /** Sends the key as a bearer token, like a gateway. */
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    server.call('POST', path, { body, headers: { Authorization: `Bearer ${key}`, ...headers } });

  /** c-2-3 and c-3-3: the structure of every successful response. */
  function expectStructure({ path, body }: Pick<ScenarioCase, 'path' | 'body'>, response: ApiResponse): void {
    expect(response.headers.get('content-type')).toBe('application/json');
    if (path.includes('search')) {
      expect(response.body.results).toBeArray();
      expect(response.body.page.next_token).toBeString();
      return;
    }
    const { evaluations = [] } = body as { evaluations?: object[] };
    const decisions = evaluations.length === 0 ? [response.body] : response.body.evaluations;
    if (evaluations.length > 0) expect(response.body).not.toHaveProperty('decision');
    for (const { decision, context } of decisions) {
      expect(decision).toBeBoolean();
      expect(context).toBeObject();
    }
  }

  test.each(cases.map((each) => [each.id, each.what, each] as const))('%s: %s', async (_, __, each) => {
    const response = await post(each.path, each.body, each.headers);
    expect(response.status).toBe(each.status);
    if (each.status !== 200) return;
    expectStructure(each, response);
    if (each.path.includes('search')) {
      expect(response.body.results).toEqual(expect.arrayContaining([...(each.expected as object[])]));
      return;
    }
    const decisions = response.body.evaluations ?? [response.body];
    expect(decisions).toHaveLength(each.expected?.length ?? 0);
    (each.expected as (boolean | undefined)[]).forEach((expected, index) => {
      if (expected !== undefined) expect(decisions[index].decision).toBe(expected);
    });
  });

  test.each([
    ['an id', '5f0c1d7e-8b5a-4e0f-9b1a-6f2f4a1c9d3e'],
    ['any text', 'not an id: "é" / {7}'],
  ])('c-2-5-1: X-Request-ID with %s is repeated, also in an error', async (_, id) => {
    const sent = Buffer.from(id).toString('latin1');
    for (const [body, status] of [
      [permittedRequest, 200],
      [{}, 400],
    ] as const) {
      const response = await post('/access/v1/evaluation', body, { 'X-Request-ID': sent });
      expect([response.status, response.headers.get('x-request-id')]).toEqual([status, sent]);
    }
    const anonymous = await server.call('POST', '/access/v1/evaluation', {
      body: permittedRequest,
      headers: { 'X-Request-ID': 'mine' },
    });
    expect([anonymous.status, anonymous.headers.get('x-request-id')]).toEqual([401, 'mine']);
  });

  test('c-2-5-2: X-Request-ID is optional', async () => {
    const response = await post('/access/v1/evaluation', permittedRequest);
    expect([response.status, response.headers.get('x-request-id')]).toEqual([200, null]);
  });

  test('c-4-5: searches are paginated, and the last page has an empty token', async () => {
    const path = '/access/v1/search/subject';
    const first = (await post(path, { ...subjectSearch, page: { limit: 1 } })).body;
    expect([first.results.length, first.page.count]).toEqual([1, 1]);
    expect(first.page.next_token).not.toBe('');
    const rest = (await post(path, { ...subjectSearch, page: { token: first.page.next_token } })).body;
    expect(rest.page.next_token).toBe('');
    const names = [...first.results, ...rest.results].map(({ id }: { id: string }) => id);
    expect(names.sort()).toEqual(['alice', 'bob']);
  });

  test.each(emptySearches)('c-4-6: a search without matches at %s returns no results', async (path, body) => {
    const response = await post(path, body);
    expect([response.status, response.body.results]).toEqual([200, []]);
  });

  test('c-6: the metadata contains the https URLs of all endpoints', async () => {
    const { status, body, headers } = await server.call('GET', '/.well-known/authzen-configuration');
    expect([status, headers.get('content-type')]).toEqual([200, 'application/json']);
    expect(body).toEqual({
      policy_decision_point: base,
      access_evaluation_endpoint: `${base}/access/v1/evaluation`,
      access_evaluations_endpoint: `${base}/access/v1/evaluations`,
      search_subject_endpoint: `${base}/access/v1/search/subject`,
      search_resource_endpoint: `${base}/access/v1/search/resource`,
      search_action_endpoint: `${base}/access/v1/search/action`,
    });
  });

  /** Sends a module. Returns the status of a failure, decisions, or the results of all pages. */
  async function run(module: Module): Promise<readonly unknown[]> {
    const { endpoint, body, method = 'POST', headers = {}, credentials, isPaged = false } = module;
    const sent = { valid: `Bearer ${key}`, invalid: 'Bearer x', none: '' }[credentials ?? 'valid'];
    const authorization = sent === '' ? {} : { Authorization: sent };
    const found: unknown[] = [];
    let token = '';
    do {
      const { page } = body as { page?: object };
      const paged = isPaged ? { ...(body as object), page: { ...page, ...(token && { token }) } } : body;
      const response = await server.call(method, paths[endpoint], {
        ...(method !== 'GET' && { body: paged }),
        headers: { ...authorization, ...headers },
      });
      if (response.status === 401) expect(response.headers.get('www-authenticate')).toContain('Bearer');
      if (response.status !== 200) return [response.status];
      expectStructure({ path: paths[endpoint], body }, response);
      if (endpoint.endsWith('search')) expect(Object.keys(response.body)[0]).toBe('page');
      expect(response.headers.get('x-request-id')).toBe(headers['X-Request-ID'] ?? null);
      const { results, evaluations = [response.body], page: next } = response.body;
      found.push(...(results ?? evaluations.map(({ decision }: { decision: boolean }) => decision)));
      token = next?.next_token ?? '';
    } while (isPaged && token !== '');
    return found;
  }

  test.each(modules.map((module) => [module.name, module] as const))('module %s', async (_, module) => {
    const { expected, endpoint, times = 1 } = module;
    const answers: (readonly unknown[])[] = [];
    for (let turn = 0; turn < times; turn++) answers.push(await run(module));
    for (const answer of answers) expect(answer).toEqual(answers[0] as unknown[]);
    const [answer = []] = answers;
    if (typeof expected[0] === 'number') expect(expected as number[]).toContain(answer[0] as number);
    else if (endpoint.endsWith('search')) {
      expect(answer).toEqual(expect.arrayContaining([...expected]));
      if (expected.length === 0) expect(answer).toEqual([]);
    } else expect(answer).toEqual([...expected]);
  });

  test('only a type is taken from the default of a batch, never an id or a property', async () => {
    const container = '/records/active/';
    const body = {
      subject: { type: 'user', id: 'alice' },
      action: { name: 'write' },
      resource: { type: 'record', id: 'record-9', properties: { container } },
      evaluations: [
        {},
        { resource: { id: 'record-8' } },
        { resource: { id: 'record-8', properties: { container } } },
        { resource: { properties: { container } } },
        { subject: { type: 'user' } },
        { action: {} },
        { resource: { id: 'record-9', type: 'other' } },
      ],
    };
    const { evaluations } = (await post(paths.evaluations, body)).body;
    const decisions = evaluations.map(({ decision }: { decision: boolean }) => decision);
    expect(decisions).toEqual([true, false, true, false, false, false, false]);
  });

  test('a subject search ends without an empty page, whatever the size of a page is', async () => {
    for (const limit of [1, 2, 3]) {
      const { page, results } = (await post(paths['subject-search'], { ...subjectSearch, page: { limit } }))
        .body;
      expect([results.length, page.next_token === '']).toEqual([Math.min(limit, 2), limit >= 2]);
    }
  });
});
