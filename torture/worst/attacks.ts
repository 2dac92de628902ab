/** The most expensive requests of keys with few permissions, each with an ordinary request for comparison. */
import { maxJsonValues } from '../../src/domain/json-limits.ts';
import { Client, type ClientResponse, type RequestOptions } from '../client.ts';
import type { Fleet, Tenant } from '../fleet.ts';
import type { Body, Clients } from '../fleet-clients.ts';
import { Random } from '../random.ts';
import type { Context } from '../row.ts';
import { type Filler, metadataNames } from './fill.ts';

export interface Attack {
  readonly name: string;
  /** Sends the n-th variant of the request. */
  send(number: number): Promise<ClientResponse>;
  /** Maximum size of the response in bytes. */
  readonly mostBytes: number;
  /** The ordinary request that its cost is compared with. */
  readonly like: Ordinary;
}

export interface Ordinary {
  send(number: number): Promise<ClientResponse>;
  /** Maximum cost relative to the ordinary request. */
  readonly most: number;
}

const KiB = 1024;
const page = 8 * KiB * KiB;
/** Maximum size of an error response. */
const refusal = 68 * KiB;
const mostRules = 50;
const transform = 'redact';

/** Container of ordinary tokens, for comparison. */
export const ordinaryContainer = '/page/small/';

export const deepestContainer = 'the deepest container';

export interface Keys {
  readonly owner: string;
  /** A session with 50 rules by id, under a ceiling of 50 containers. */
  readonly crowded: string;
  /** Like `crowded`, with rules and a ceiling that match no token. */
  readonly blind: string;
  /** A public application that may create and list tokens in its containers. */
  readonly page: string;
  /** A session that may request decisions about itself, with the longest possible rules. */
  readonly wordy: string;
  /** An application that may read the log. */
  readonly auditor: string;
}

export async function makeKeys(clients: Clients, { key: owner }: Tenant): Promise<Keys> {
  const { application } = clients;
  const web = await application(owner, {
    type: 'public',
    permissions: [],
    rules: [rule('/page/', ['token:create', 'token:read'], 'reveal')],
  });
  const session = async (authorizer: Body, rules: object[], permissions: string[] = []) => {
    const { session_key, nonce } = await clients.must(0, 'POST', '/sessions', { key: web.key });
    const expires_at = new Date(Date.now() + 3_600_000).toISOString();
    const body = { nonce, rules, permissions, expires_at };
    await clients.must(0, 'POST', '/sessions/authorize', { key: authorizer.key, body });
    return session_key as string;
  };
  const backend = (containers: readonly string[], permissions: string[] = []) =>
    application(owner, {
      permissions,
      rules: containers.map((container) => rule(container, ['token:read'])),
    });
  const byId = (value: string) => conditional([{ attribute: 'id', operator: 'starts_with', value }]);
  const many = (of: (at: number) => string) => Array.from({ length: mostRules }, (_, at) => of(at));
  const crowded = await session(
    await backend(many((at) => `/filled/${at}/`)),
    many((at) => `filled-${at}`).map(byId),
  );
  const blind = await session(
    await backend(many((at) => `/nothing/${at}/`)),
    many((at) => `nothing-${at}`).map(byId),
  );
  const long = (at: number) => `/${String(at).padStart(2, '0')}${'a'.repeat(240)}/`;
  const wordy = await session(
    await backend(many(long), ['decision:create']),
    many(long).map((value) =>
      conditional([
        { attribute: 'container', operator: 'starts_with', value },
        { attribute: 'id', operator: 'starts_with', value: value.repeat(2) },
      ]),
    ),
    ['decision:create'],
  );
  const auditor = (await application(owner, { permissions: ['log:read'] })).key;
  return { owner, crowded, blind, page: web.key, wordy, auditor };
}

function rule(container: string, permissions: readonly string[], shown = transform) {
  return { priority: 1, container, transform: shown, permissions };
}

function conditional(conditions: readonly object[]) {
  return { priority: 1, transform, permissions: ['token:read'], conditions };
}

export function attacksWith(context: Context, fleet: Fleet, keys: Keys, filler: Filler): Attack[] {
  const client = new Client(fleet.at(0).url);
  context.defer(() => client.close());
  const call = (method: string, path: string, options: RequestOptions) => client.call(method, path, options);
  const get = (key: string, path: string) => call('GET', path, { key });
  const post = (key: string, path: string, body: unknown) => call('POST', path, { key, body });

  const list: Ordinary = {
    send: () => get(keys.page, `/tokens?size=100&container=${ordinaryContainer}`),
    most: 10,
  };
  const create: Ordinary = {
    send: (number) =>
      post(keys.page, '/tokens', { container: '/page/other/', data: number, metadata: { a: 'b' } }),
    most: 20,
  };
  const createLarge: Ordinary = {
    send: (number) =>
      post(keys.page, '/tokens', {
        container: '/page/other/',
        data: { number, values: manyValues.data.values },
      }),
    most: 5,
  };
  const readLog: Ordinary = { send: () => get(keys.auditor, '/logs?size=100'), most: 8 };
  const resources = Array.from({ length: 100 }, (_, at) => ({ id: `x-${at}`, container: '/x/' }));
  const decide: Ordinary = {
    send: () =>
      post(keys.wordy, '/decisions', {
        credential: keys.wordy,
        permission: 'token:read',
        resources,
      }),
    most: 10,
  };

  const each = metadataNames.map((name) => `metadata[${name}]=v`);
  const filters = each.join('&');
  /** Queries of 40 different shapes, to fill caches per shape. The first ones have all filters. */
  const varied = (number: number) =>
    [
      ...each.slice((number >> 2) % each.length),
      number & 1 && 'type=token',
      number & 2 && 'container=/filled/',
    ]
      .filter(Boolean)
      .join('&');
  const attack = (name: string, like: Attack['like'], mostBytes: number, send: Attack['send']): Attack => ({
    name,
    like,
    mostBytes,
    send,
  });

  return [
    attack('10 filters, 50 rules, 50 of the ceiling', list, page, (number) =>
      get(keys.crowded, `/tokens?size=100&${varied(number)}`),
    ),
    attack('10 filters by a key that sees all', list, page, () =>
      get(keys.owner, `/tokens?size=100&${filters}`),
    ),
    attack('an unused type', list, page, () => get(keys.owner, '/tokens?size=100&type=absent')),
    attack('a deep page', { ...list, most: 50 }, page, () => get(keys.owner, '/tokens?size=100&page=999')),
    attack('an empty list', list, page, () => get(keys.blind, '/tokens?size=100')),
    attack('an empty list with filters', list, page, () => get(keys.blind, `/tokens?size=100&${filters}`)),
    attack(deepestContainer, create, 8 * KiB, (number) =>
      deepest((container) => post(keys.page, '/tokens', { container, data: number })),
    ),
    attack('a mask over many values', createLarge, 256 * KiB, () => post(keys.page, '/tokens', manyValues)),
    attack('unknown fields', createLarge, refusal, () => post(keys.page, '/tokens', unknownFields)),
    attack('wrong rules', create, refusal, () => post(keys.owner, '/applications', wrongRules)),
    // Lists about 4,000 rules with reasons of a kilobyte.
    attack('decisions with reasons', { ...decide, most: 25 }, 4 * KiB * KiB, explained(post, keys.wordy)),
    ...logQueries(filler).map((query) =>
      attack(`/logs?${query.replaceAll(/=[^&]*/g, '')}`, readLog, page, () =>
        get(keys.auditor, `/logs?size=100&${query}`),
      ),
    ),
  ];
}

/** Sends a container with 241 levels or, if that is rejected, with the maximum of 16. */
async function deepest(send: (container: string) => Promise<ClientResponse>): Promise<ClientResponse> {
  const answer = await send(`/page/${'a/'.repeat(240)}`);
  return answer.status === 400 ? send(`/page/${'a/'.repeat(15)}`) : answer;
}

/** Just below the number of values and field names that a body may have. */
const mostValues = maxJsonValues - 20;

/**
 * Data of which 500 different parts appear in the masked output, far from its start. All of them are searched, because
 * only the last value is hidden. Masks with more than 512 such parts are rejected.
 */
const manyValues = (() => {
  const random = new Random(1);
  const tail = Array.from({ length: 9000 }, () => random.one([...'abcdefghijklmnopqrstuvw'])).join('');
  const parts = Array.from({ length: 500 }, (_, at) => tail.slice(at * 17, at * 17 + 10));
  const values = Array.from({ length: mostValues }, (_, at) => parts[at % parts.length]);
  return {
    container: '/page/',
    data: { a: 'x'.repeat(50_000) + tail, values: [...values, 'hidden'] },
    mask: '{{ data.a }}',
  };
})();

const unknownFields = {
  container: '/page/',
  data: 1,
  ...Object.fromEntries(Array.from({ length: mostValues / 2 }, (_, at) => [`k${at}`, 1])),
};

/** As many rules, permissions and conditions as an application may have, all of them wrong. */
export const wrongRules = {
  name: 'x',
  type: 'private',
  permissions: Array.from({ length: 50 }, (_, at) => `wrong ${at}`),
  rules: Array.from({ length: mostRules }, () => ({
    priority: 'x',
    transform: 'x',
    permissions: Array.from({ length: 50 }, (_, at) => `wrong ${at}`),
    conditions: Array.from({ length: 10 }, () => ({ attribute: 'x', operator: 'x', value: 1 })),
  })),
};

/** Asks for as many explained decisions as fit into a reply. The first call finds the number. */
function explained(
  post: (key: string, path: string, body: unknown) => Promise<ClientResponse>,
  key: string,
): () => Promise<ClientResponse> {
  const resources = Array.from({ length: 100 }, (_, at) => ({
    id: `${at}-`.padEnd(250, 'i'),
    container: `/${'c'.repeat(240)}/`,
  }));
  return async () => {
    for (;;) {
      const body = { credential: key, permission: 'token:read', resources, explain: true };
      const answer = await post(key, '/decisions', body);
      if (answer.status !== 400 || resources.length === 1) return answer;
      resources.pop();
    }
  };
}

function logQueries(filler: Filler): string[] {
  const [creator, changer] = [filler.actor(1), filler.actor(99)];
  const nobody = '01900009-0000-7000-8000-000000000000';
  return [
    'operation=tenant.delete',
    `actor=${nobody}`,
    'entity=nothing',
    'token=nothing',
    'container=/nothing/',
    'request_id=nothing',
    'transform=reveal',
    'result=denied',
    `actor=${creator}&operation=application.update`,
    'to=2001-01-01T00:00:00Z',
    `actor=${changer}&operation=application.update&result=denied&from=2001-01-01T00:00:00Z&to=2100-01-01T00:00:00Z`,
  ];
}

/** 50 requests of about 1 KiB. */
export const largeUpdate = () => ({
  name: `d-${crypto.randomUUID().slice(0, 12)}`,
  requests: Array.from({ length: 50 }, (_, at) => ({
    method: 'POST',
    path: `/v1/${'p'.repeat(100)}/${at}`,
    placeholders: Array.from({ length: 15 }, (_, place) => ({ at: `/card/${place}/n`, from: '/number' })),
    query: ['expand', 'limit'],
    reply: ['/id', '/status'],
  })),
});
export const largeDestination = () => ({ ...largeUpdate(), origin: 'https://api.example' });

const twenty = Array.from({ length: 20 }, (_, at) => at);

/** A destination with 20 placeholders for every method. */
export const proxiedFields = (name: string) => ({
  name,
  requests: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].map((method) => ({
    method,
    path: '/charges/:id',
    ...(method.startsWith('P') && { placeholders: twenty.map((at) => ({ at: `/cards/${at}` })) }),
  })),
});

/** A body of almost 64 KiB with 20 placeholders. */
const proxiedBody = (token: string) =>
  JSON.stringify({ cards: twenty.map(() => `{{ token: ${token} }}`), note: '{'.repeat(60_000) });

/** The address is not allowed, so no request is sent. */
const use = (key: string, name: string) => ({
  what: 'at a destination that is not reached',
  path: `/proxy/${name}/charges/1`,
  key,
  expected: [400, 429, 502, 503],
});

export interface Proxied {
  /** A key that can use all tokens at a destination that is never reached, with this id and name. */
  readonly key: string;
  readonly id: string;
  readonly name: string;
}

interface World {
  readonly owner: string;
  readonly proxied: Proxied;
  readonly largeToken: string;
}

const usesOfTokens = Object.fromEntries(
  ['proxyGet', 'proxyDelete', 'proxyPost', 'proxyPut', 'proxyPatch'].map((route) => [
    route,
    ({ proxied: { key, name }, largeToken }: World) => [
      { ...use(key, name), ...(route.startsWith('proxyP') && { body: proxiedBody(largeToken) }) },
    ],
  ]),
);

export const proxyRequests = {
  ...usesOfTokens,
  updateDestination: ({ owner: key, proxied: { id, name } }: World) => [
    { what: 'many placeholders', path: `/destinations/${id}`, key, body: proxiedFields(name) },
  ],
};

interface Making {
  readonly tenant: Tenant;
  call(method: string, path: string, options?: RequestOptions): Promise<Body>;
  application(fields: object): Promise<{ key: string }>;
  /** A rule for all tokens. */
  readonly rule: object;
}

export async function makeProxied({ tenant, call, application, rule }: Making): Promise<Proxied> {
  const name = `p-${tenant.id.slice(0, 8)}`;
  const body = { ...proxiedFields(name), origin: 'https://127.0.0.1:9' };
  const { id } = await call('POST', '/destinations', { body });
  const rules = [{ ...rule, permissions: ['token:use'], destinations: [id] }];
  const { key } = await application({ permissions: [], rules });
  return { key, id, name };
}
