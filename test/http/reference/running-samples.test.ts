/** Sends the example request of every operation to a running service. Only ids are replaced. */
import { describe, expect, test } from 'bun:test';
import { formType } from '../../../src/http/pipeline/read-input.ts';
import { example } from '../../../src/http/reference/examples.ts';
import { type Operation, openApi, requestTarget } from '../../../src/http/reference/openapi.ts';
import { routes } from '../../../src/http/routes.ts';
import { tokenUseRule } from '../../support/destination-receiver.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const document = openApi(routes, '1.2.3');
/** `getHome` redirects. The others need a destination or an issuer; test/http/endpoints/proxy.test.ts and token-exchange.test.ts have both. */
const elsewhere = [
  'getHome',
  'exchangeToken',
  'proxyGet',
  'proxyPost',
  'proxyPut',
  'proxyPatch',
  'proxyDelete',
];
const operations = Object.entries(document.paths)
  .flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([method, operation]) => [operation.operationId, { path, method, operation }] as const,
    ),
  )
  .filter(([name]) => !elsewhere.includes(name));

describe('the examples of the API reference', async () => {
  const server = await openTestServer(sqlite);

  /** Creates, in a new tenant, what the samples name. Returns the keys of the sample's callers, and its ids. */
  async function prepare(name: string) {
    const { key: management } = await server.tenant();
    const application = await server.application(management, {
      type: 'private',
      permissions: ['token:read'],
      rules: [{ priority: 1, container: '/', transform: 'mask', permissions: ['token:read'] }],
    });
    const publicKey = (await server.application(management, { type: 'public' })).key;
    const create = async (path: string, body?: unknown, key = management) =>
      (await server.call('POST', path, { key, body })).body;
    const { session_key, nonce } = await create('/sessions', undefined, publicKey);
    if (name !== 'authorizeSession')
      await create('/sessions/authorize', {
        nonce,
        rules: example.sessionAuthorize.rules,
        subject: 'user:42',
      });
    const sessions = (await server.call('GET', '/sessions', { key: management })).body.data;
    const { data: keys } = (
      await server.call('GET', `/applications/${application.id}/keys`, { key: management })
    ).body;
    if (name !== 'createToken') await create('/tokens', example.tokenCreate);
    const destination =
      name === 'createDestination' ? {} : await create('/destinations', example.destinationCreate);
    const usesTokens = name === 'listUsableDestinations';
    const rules = usesTokens ? [tokenUseRule('/', [destination.id])] : [];
    const user = usesTokens ? await server.application(management, { permissions: [], rules }) : {};
    return {
      keys: {
        management: user.key ?? management,
        private: application.key,
        public: publicKey,
        session: session_key,
      },
      ids: [
        [example.applicationKey.id, keys[0].id],
        [example.session.id, sessions[0]?.id],
        [example.destination.id, destination.id],
        [example.application.id, application.id],
        ['slp_non_…', nonce],
        ['slp_ses_…', session_key],
        ['slp_pvt_…', application.key],
      ] as [string, string | undefined][],
    };
  }

  const keyOf = (
    { security, 'x-callers': callers = ['management'] }: Operation,
    keys: Record<string, string>,
  ) =>
    security?.length === 0
      ? undefined
      : keys[callers.includes('management') ? 'management' : (callers[0] as string)];

  test.each(operations)('%s succeeds', async (name, { path, method, operation }) => {
    const { keys, ids } = await prepare(name);
    const replaced = (text: string) =>
      ids.reduce((result, [from, to]) => result.replaceAll(from, to ?? from), text);
    const [type, content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
    expect(type).not.toBe(formType);
    const response = await server.call(
      method.toUpperCase(),
      replaced(requestTarget(path, operation.parameters)),
      {
        key: keyOf(operation, keys),
        ...(content?.example !== undefined && { body: replaced(JSON.stringify(content.example)) }),
      },
    );
    const declared = Object.keys(operation.responses).filter((status) => /^[23]/.test(status));
    const { status, body: { detail = '', errors = {} } = {} } = response;
    expect([declared.includes(String(status)), status, detail, errors]).toEqual([true, status, '', {}]);
  });
});
