/** The AuthZEN 1.0 certification scenario. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { loadFixture } from '../../../support/authzen/fixture.ts';
import {
  cases,
  emptySearches,
  levels,
  permittedRequest,
  type ScenarioCase,
  subjectSearch,
  unsupported,
} from '../../../support/authzen/scenario.ts';
import { serve } from '../../../support/serve.ts';
import { type ApiResponse, databases } from '../../../support/test-server.ts';

const base = 'https://pdp.example.com';
/** Sections that apply to responses in general, tested below or with every case. */
const general = ['c-2-3', 'c-2-5', 'c-3-3', 'c-4-5', 'c-4-6', 'c-6'];

test('every section of every level is covered, except decisions by properties of the action', () => {
  const covered = [...cases.map(({ id }) => id), ...general, ...unsupported];
  const missing = Object.values(levels)
    .flat()
    .filter((section) => !covered.some((id) => id === section || id.startsWith(`${section}-`)));
  expect(missing).toEqual([]);
  for (const level of ['Basic Core', 'Batch Core', 'Search Core', 'Discovery'] as const)
    expect(levels[level].filter((id) => unsupported.includes(id))).toEqual([]);
});

describe.each(databases)('the AuthZEN certification scenario on %s', (_, database) => {
  const server = serve(database, { SALLYPORT_PUBLIC_URL: base });
  let key: string;
  beforeAll(async () => {
    const management = (await server.tenant()).key;
    await loadFixture((...asked) => server.call(...asked), management);
    const permissions = ['decision:create', 'access:review'];
    key = (await server.application(management, { name: 'gateway', permissions })).key;
  });

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
    expect(decisions).toHaveLength(evaluations.length || 1);
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
});
