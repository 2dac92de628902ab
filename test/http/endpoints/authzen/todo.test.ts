/** The AuthZEN todo scenario: API gateways ask about routes, the application about todos. */
import { describe, expect, test } from 'bun:test';
import {
  applicationCases,
  batchCases,
  gatewayCases,
  type TodoCase,
  type TodoUser,
  users,
} from '../../../support/authzen/todo.ts';
import { databases, openTestServer } from '../../../support/test-server.ts';

const rule = (container: string, ...permissions: string[]) => ({
  priority: 1,
  container,
  transform: 'reveal',
  permissions,
});

const [get, change] = ['route:get', ['route:post', 'route:put', 'route:delete']];
const [read, create] = [['user:can_read_user', 'todo:can_read_todos'], 'todo:can_create_todo'];
const edit = ['todo:can_update_todo', 'todo:can_delete_todo'];

/** The access of a user, by role. */
type Policy = (user: TodoUser) => { permissions?: string[]; rules?: object[] };

const byRoute: Policy = ({ role }) => ({
  rules: [rule('/users/', get), rule('/todos/', get, ...(role === 'viewer' ? [] : change))],
});

/** Every todo is a token in the container of its owner. */
const byOwner: Policy = ({ role, name }) => ({
  permissions: role === 'viewer' ? read : [...read, create],
  rules: role === 'viewer' ? [] : [rule(role === 'admin' ? '/todos/' : `/todos/${name}/`, ...edit)],
});

/** Todos are not stored here. */
const withoutOwner: Policy = ({ role }) => ({
  permissions: role === 'viewer' ? read : [...read, create, ...edit],
});

describe.each(databases)('the AuthZEN todo scenario on %s', async (_, database) => {
  const server = await openTestServer(database);

  /** Creates a tenant with the users as applications. Returns its management key and the key of a gateway. */
  async function load(policy: Policy) {
    const { key } = await server.tenant();
    for (const user of users)
      await server.application(key, { name: user.id, permissions: [], rules: [], ...policy(user) });
    const gateway = await server.application(key, { permissions: ['decision:create'] });
    return { key, gateway: gateway.key as string };
  }

  async function storeTodos(key: string): Promise<void> {
    for (const { name, todo } of users) {
      const body = { id: todo, type: 'todo', container: `/todos/${name}/`, data: { completed: false } };
      expect((await server.call('POST', '/tokens', { key, body })).status).toBe(201);
    }
  }

  const evaluate = async (path: string, body: object, gateway: string) =>
    (
      await server.call('POST', `/access/v1/${path}`, {
        body,
        headers: { Authorization: `Bearer ${gateway}` },
      })
    ).body;
  /** The cases whose decision is not the expected one. */
  async function mistakes(cases: readonly TodoCase[], gateway: string): Promise<string[]> {
    const wrong: string[] = [];
    for (const { who, what, expected, ...request } of cases) {
      const { decision } = await evaluate('evaluation', request, gateway);
      if (decision !== expected) wrong.push(`${who.name} ${what}`);
    }
    return wrong;
  }

  test('gateways get the published decision for every user, method and route', async () => {
    const { gateway } = await load(byRoute);
    expect(gatewayCases).toHaveLength(25);
    expect(await mistakes(gatewayCases, gateway)).toEqual([]);
  });

  test.each([
    ['DELETE', '/users/{userId}'],
    ['GET', '/todos-other'],
    ['GET', '/admin'],
    ['GET', '/todos/../users'],
    ['GET', '/'],
    ['PATCH', '/todos/{todoId}'],
  ])('a gateway is denied %s %s, which no rule covers', async (name, id) => {
    const { key, gateway } = await load(byRoute);
    const [rick] = users as [TodoUser];
    const request = {
      subject: { type: 'identity', id: rick.id },
      action: { name },
      resource: { type: 'route', id },
    };
    expect((await evaluate('evaluation', request, gateway)).decision).toBe(false);
    const { results } = await evaluate('search/action', request, key);
    expect(results).not.toContainEqual({ name: name.toLowerCase() });
  });

  test('a missing grant names the container of the route', async () => {
    const { key } = await load(byRoute);
    const subject = { type: 'identity', id: users.at(-1)?.id };
    const resource = { type: 'route', id: '/todos/{todoId}' };
    const { context } = await evaluate('evaluation', { subject, action: { name: 'PUT' }, resource }, key);
    expect(context.missing).toEqual({ permission: 'route:put', container: '/todos/todoId/' });
    const { results } = await evaluate('search/action', { subject, resource }, key);
    expect(results).toEqual([{ name: 'get' }]);
  });

  test('the application gets every published decision if todos are tokens in a container of their owner', async () => {
    const { key, gateway } = await load(byOwner);
    await storeTodos(key);
    expect(applicationCases).toHaveLength(40);
    expect(await mistakes(applicationCases, gateway)).toEqual([]);
    for (const { request, expected } of batchCases) {
      const { evaluations } = await evaluate('evaluations', request, gateway);
      expect(evaluations.map(({ decision }: { decision: boolean }) => decision)).toEqual(expected);
    }
  });

  test('otherwise, only the decisions about todos of others differ, because ownerID is ignored', async () => {
    const { gateway } = await load(withoutOwner);
    expect(await mistakes(applicationCases, gateway)).toEqual([
      ...['morty can_update_todo other', 'summer can_update_todo other'],
      ...['morty can_delete_todo other', 'summer can_delete_todo other'],
    ]);
  });
});
