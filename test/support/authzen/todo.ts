/**
 * The decisions of the AuthZEN todo scenario: those that API gateways ask for about routes, and those that the
 * application asks for about todos (interop/authzen-api-gateways/test-harness and interop/authzen-todo-backend of the
 * repository openid/authzen).
 */

export interface TodoUser {
  readonly name: string;
  readonly email: string;
  /** The `sub` claim, which is the id of the subject. */
  readonly id: string;
  readonly role: 'viewer' | 'editor' | 'admin';
  /** The id of a todo of this user. */
  readonly todo: string;
}

function user(name: string, domain: string, part: string, role: TodoUser['role'], digit: number): TodoUser {
  return {
    name,
    email: `${name}@${domain}`,
    id: `CiRmZ${part}TRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs`,
    role,
    todo: `7240d0db-8ff0-41ec-98b2-34a096273b9${digit}`,
  };
}

const rick = user('rick', 'the-citadel.com', 'DA2M', 'admin', 2);
const morty = user('morty', 'the-citadel.com', 'DE2M', 'editor', 1);
const summer = user('summer', 'the-smiths.com', 'DI2M', 'editor', 3);
const beth = user('beth', 'the-smiths.com', 'DM2M', 'viewer', 4);
const jerry = user('jerry', 'the-smiths.com', 'DQ2M', 'viewer', 5);
export const users = [rick, morty, summer, beth, jerry];

export interface TodoCase {
  readonly who: TodoUser;
  readonly what: string;
  readonly subject: object;
  readonly action: { readonly name: string };
  readonly resource: { readonly type: string; readonly id: string };
  readonly expected: boolean;
}

/** A row has a column for each of `users`. */
const routes: [method: string, path: string, ...expected: boolean[]][] = [
  ['GET', '/users/{userId}', true, true, true, true, true],
  ['GET', '/todos', true, true, true, true, true],
  ['POST', '/todos', true, true, true, false, false],
  ['PUT', '/todos/{todoId}', true, true, true, false, false],
  ['DELETE', '/todos/{todoId}', true, true, true, false, false],
];

export const gatewayCases: TodoCase[] = routes.flatMap(([name, id, ...expected]) =>
  users.map((who, index) => ({
    who,
    what: `${name} ${id}`,
    subject: { type: 'identity', id: who.id },
    action: { name },
    resource: { type: 'route', id },
    expected: expected[index] as boolean,
  })),
);

type Target = (who: TodoUser) => { type: string; id: string; properties?: object };
const person =
  (of: (who: TodoUser) => TodoUser): Target =>
  (who) => ({ type: 'user', id: of(who).email });
const todo =
  (of: (who: TodoUser) => TodoUser): Target =>
  (who) => ({ type: 'todo', id: of(who).todo, properties: { ownerID: of(who).email } });
const anyTodo: Target = () => ({ type: 'todo', id: 'todo-1' });
const own = (who: TodoUser) => who;
/** Another user: Rick, or for Rick himself Morty. */
const other = (who: TodoUser) => (who === rick ? morty : rick);

const questions: [action: string, what: string, target: Target, ...expected: boolean[]][] = [
  ['can_read_user', 'Beth', person(() => beth), true, true, true, true, true],
  ['can_read_user', 'oneself', person(own), true, true, true, true, true],
  ['can_read_todos', 'all', anyTodo, true, true, true, true, true],
  ['can_create_todo', 'one', anyTodo, true, true, true, false, false],
  ['can_update_todo', 'own', todo(own), true, true, true, false, false],
  ['can_update_todo', 'other', todo(other), true, false, false, false, false],
  ['can_delete_todo', 'own', todo(own), true, true, true, false, false],
  ['can_delete_todo', 'other', todo(other), true, false, false, false, false],
];

export const applicationCases: TodoCase[] = questions.flatMap(([name, what, target, ...expected]) =>
  users.map((who, index) => ({
    who,
    what: `${name} ${what}`,
    subject: { type: 'user', id: who.id },
    action: { name },
    resource: target(who),
    expected: expected[index] as boolean,
  })),
);

/** The cases with several evaluations in a request. */
export const batchCases = [
  { who: rick, owners: [rick, jerry], expected: [true, true] },
  { who: morty, owners: [rick, morty], expected: [false, true] },
  { who: jerry, owners: [rick, jerry], expected: [false, false] },
].map(({ who, owners, expected }) => ({
  who,
  request: {
    subject: { type: 'user', id: who.id },
    action: { name: 'can_update_todo' },
    evaluations: owners.map((owner) => ({ resource: todo(() => owner)(who) })),
  },
  expected,
}));
