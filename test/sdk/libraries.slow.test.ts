/** The libraries of providers, through `/proxy`, against a TLS server that speaks like the providers. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import Anthropic from '@anthropic-ai/sdk';
import { drive } from '@googleapis/drive';
import { Octokit } from 'octokit';
import OpenAI, { toFile } from 'openai';
import Stripe from 'stripe';
import { ConnectionError, Sallyport } from '../../sdk/src/sallyport.ts';
import { presetFields } from '../../src/cli/commands/destination-presets.ts';
import { noOpenssl } from '../support/certificates.ts';
import { tokenUseRule } from '../support/destination-receiver.ts';
import { audio, json, openProvider, type Provider, providerKey, words } from '../support/provider.ts';
import { root } from '../support/service.ts';
import { openTestServer, sqlite, type TestServer } from '../support/test-server.ts';

/** How a library reaches the service, and with which key. */
interface Way {
  readonly base: string;
  /** A reverse proxy that puts `/proxy/NAME` before each path, for options that take a host. */
  readonly host: string;
  readonly port: number;
  readonly fetch: typeof globalThis.fetch;
  readonly key: string;
}

type WayName = 'baseURL' | 'the host options' | 'client.proxy(name).fetch';
type Send = (way: Way) => Promise<unknown>;

interface Library {
  readonly destination: string;
  readonly ways: Partial<Record<WayName, Send>>;
  /** Part of what the call resolves with. */
  readonly reply: object;
  /** The classes of the errors for 400, 401, 404 and 502. */
  readonly classes: readonly [string, string, string, string];
  readonly codeOf: (error: never) => unknown;
  /** How often a request with a 502 after sending reaches the provider, if the library is told nothing. */
  readonly sendings: number;
}

function library<C>(
  open: Partial<Record<WayName, (way: Way) => C>>,
  send: (client: C) => Promise<unknown>,
  rest: Omit<Library, 'ways'>,
): Library {
  const ways = Object.entries(open).map(([name, one]) => [name, (way: Way) => send(one(way))] as const);
  return { ...rest, ways: Object.fromEntries(ways) };
}

const messages = [{ role: 'user' as const, content: 'What is a sally port?' }];
const comment = { owner: 'acme', repo: 'gate', issue_number: 7, body: 'Hello' };
const modelErrors = [
  'BadRequestError',
  'AuthenticationError',
  'NotFoundError',
  'InternalServerError',
] as const;
const stripeErrors = ['InvalidRequest', 'Authentication', 'InvalidRequest', 'API'].map(
  (each) => `Stripe${each}Error`,
);

const openai = ({ key }: Way, options: object) => new OpenAI({ ...options, apiKey: key });
const anthropic = ({ key }: Way, options: object) => new Anthropic({ ...options, apiKey: key });
const stripe = ({ key }: Way, options: Stripe.StripeConfig) => new Stripe(key, options);
// Delays between repetitions say nothing about whether there are any.
const octokit = ({ key }: Way, options: object) =>
  new Octokit({ auth: key, retry: { retryAfterBaseValue: 1 }, log: silent, ...options });
const files = ({ key }: Way, options: object) =>
  drive({ version: 'v3', headers: { Authorization: `Bearer ${key}` }, ...options }).files;
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

const charge = (client: Stripe) => client.charges.create({ amount: 5, currency: 'eur' });
const charges: Omit<Library, 'ways'> = {
  destination: 'stripe',
  reply: { id: 'ch_1', status: 'succeeded', amount: 5 },
  classes: stripeErrors as unknown as Library['classes'],
  codeOf: ({ code }: { code: string }) => code,
  sendings: 1,
};

const libraries: Readonly<Record<string, Library>> = {
  stripe: library(
    {
      'the host options': (way) => stripe(way, { host: way.host, port: way.port, protocol: 'http' }),
      'client.proxy(name).fetch': (way) =>
        stripe(way, { httpClient: Stripe.createFetchHttpClient(way.fetch) }),
    },
    charge,
    charges,
  ),
  openai: library(
    {
      baseURL: (way) => openai(way, { baseURL: `${way.base}/v1` }),
      'client.proxy(name).fetch': (way) => openai(way, { fetch: way.fetch }),
    },
    (client) => client.chat.completions.create({ model: 'gate-1', messages }),
    {
      destination: 'openai',
      reply: { choices: [{ message: { content: words.join('') } }] },
      classes: modelErrors,
      codeOf: ({ code }: { code: string }) => code,
      sendings: 1,
    },
  ),
  anthropic: library(
    {
      baseURL: (way) => anthropic(way, { baseURL: way.base }),
      'client.proxy(name).fetch': (way) => anthropic(way, { fetch: way.fetch }),
    },
    (client) => client.messages.create({ model: 'gate-1', max_tokens: 9, messages }),
    {
      destination: 'anthropic',
      reply: { content: [{ text: words.join('') }] },
      classes: modelErrors,
      codeOf: ({ error }: { error: { code: string } }) => error.code,
      sendings: 1,
    },
  ),
  octokit: library(
    {
      baseURL: (way) => octokit(way, { baseUrl: way.base }),
      'client.proxy(name).fetch': (way) => octokit(way, { request: { fetch: way.fetch } }),
    },
    (client) => client.rest.issues.createComment(comment),
    {
      destination: 'github',
      reply: { status: 201, data: { body: 'Hello' } },
      classes: ['RequestError', 'RequestError', 'RequestError', 'RequestError'],
      codeOf: ({ response }: { response: { data: { code: string } } }) => response.data.code,
      // It looks at the status alone.
      sendings: 4,
    },
  ),
  googleapis: library(
    {
      'the host options': (way) =>
        files(way, {
          rootUrl: `http://${way.host}:${way.port}/`,
          headers: { Accept: 'application/json', Authorization: `Bearer ${way.key}` },
        }),
      'client.proxy(name).fetch': (way) => files(way, { fetchImplementation: way.fetch }),
    },
    (client) => client.create({ requestBody: { name: 'notes' } }),
    {
      destination: 'drive',
      reply: { data: { id: 'f1', name: 'notes' } },
      classes: ['GaxiosError', 'GaxiosError', 'GaxiosError', 'GaxiosError'],
      codeOf: ({ code }: { code: string }) => code,
      sendings: 1,
    },
  ),
};

const rows = Object.entries(libraries).flatMap(([name, one]) =>
  Object.entries(one.ways).map(([way, send]) => [name, way as WayName, one, send] as const),
);

describe.skipIf(noOpenssl)('through /proxy,', () => {
  let server: TestServer;
  let provider: Provider;
  let gateway: Bun.Server<undefined>;
  let adminKey: string;
  let key: string;
  let rules: object[] = [];
  /** What the gateway puts before paths, and the requests that passed it. */
  let prefix = '';
  let passed = 0;
  /** Ends the connection to the library after the request was passed on. */
  let loses = false;
  /** Whether libraries reach the service without the gateway, which ends a stream that was cut like others. */
  let isDirect = false;
  beforeAll(async () => {
    provider = await openProvider();
    const settings = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1' };
    server = await openTestServer(sqlite, settings, undefined, { resolve: async () => ['127.0.0.1'] });
    ({ key: adminKey } = await server.tenant());
    const admin = new Sallyport({ url: server.url, key: adminKey });
    const { origin, ca } = provider;
    const presets = ['stripe', 'openai', 'anthropic', 'github'].map((name) =>
      presetFields(name, undefined, providerKey),
    );
    const bearer = { authorization: `Bearer ${providerKey}` };
    const uploads = { method: 'POST' as const, path: '/drive/v3/files', reply: [''] };
    const own = [
      { name: 'drive', requests: [uploads], headers: bearer, ignored_headers: ['x-goog-*'] },
      { name: 'nothing', requests: [{ method: 'GET' as const, path: '/nothing' }], ignored_headers: [] },
    ];
    const ids: string[] = [];
    for (const fields of [...presets, ...own])
      ids.push((await admin.destinations.create({ ...fields, origin, ca })).id);
    rules = [tokenUseRule('/', ids)];
    await admin.tokens.create({
      id: 'card-1',
      data: { number: '4242424242424242', exp_month: '12', exp_year: '2030' },
    });
    gateway = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const { pathname, search } = new URL(request.url);
        passed++;
        const { method, headers } = request;
        const body = await request.arrayBuffer();
        const sent = { method, headers, ...(body.byteLength > 0 && { body }) };
        const response = await fetch(server.url + prefix + pathname + search, sent);
        return loses ? new Response('no reply', { status: 502 }) : response;
      },
    });
  });
  afterAll(async () => {
    await gateway.stop(true);
    await server.close();
    await provider.close();
  });
  beforeEach(async () => {
    // Failures suspend the destination for an application.
    ({ key } = await server.application(adminKey, { permissions: [], rules }));
    provider.answer = undefined;
    provider.received.length = 0;
    passed = 0;
    loses = false;
    isDirect = false;
  });

  function wayTo(destination: string, name: WayName, as = key): Way {
    prefix = name === 'the host options' ? `/proxy/${destination}` : '';
    const url = isDirect ? server.url : `http://127.0.0.1:${gateway.port}`;
    const { fetch } = new Sallyport({ url, key: as }).proxy(destination);
    const client = {
      fetch: fetch as typeof globalThis.fetch,
      key: name === 'client.proxy(name).fetch' ? 'unused' : as,
    };
    return {
      base: `${url}/proxy/${destination}`,
      host: '127.0.0.1',
      port: gateway.port as number,
      ...client,
    };
  }
  const failure = (promise: Promise<unknown>) =>
    promise.then(
      () => undefined,
      (error) => error,
    );

  test.each(rows)(
    '%s with %s gets the reply, and only the provider gets its key',
    async (_, name, { destination, reply }, send) => {
      expect(await send(wayTo(destination, name))).toMatchObject(reply);
      expect([provider.received.length, passed]).toEqual([1, 1]);
      expect(JSON.stringify(provider.received[0]?.headers)).not.toContain(key);
    },
  );

  const cut = () => {
    provider.answer = (response) => response.destroy();
  };
  const cutWayTo = (to: string, name: WayName) => {
    cut();
    return wayTo(to, name);
  };
  const problems = [
    [0, 400, 'request_not_listed', 0, (name: WayName) => wayTo('nothing', name)],
    [1, 401, 'unauthenticated', 0, (name: WayName, to: string) => wayTo(to, name, 'slp_pvt_wrong')],
    [2, 404, 'not_found', 0, (name: WayName) => wayTo('unknown', name)],
    [3, 502, 'destination_failed', 1, (name: WayName, to: string) => cutWayTo(to, name)],
  ] as const;
  describe.each(rows)('to %s with %s,', (_, name, one, send) => {
    test.each(problems)(
      'problem %# is an error of its class, and the request is not repeated',
      async (at, status, code, sent, way) => {
        const error = await failure(send(way(name, one.destination)));
        expect(error.constructor.name).toBe(one.classes[at]);
        expect([error.status ?? error.statusCode, one.codeOf(error as never)]).toEqual([status, code]);
        expect(error.message).toMatch(/request|key|resource|list/);
        const times = sent * one.sendings;
        expect([provider.received.length, passed]).toEqual([times, Math.max(1, times)]);
      },
    );
  });

  const withFetch = rows.filter(([, way]) => way === 'client.proxy(name).fetch');
  test.each(withFetch)(
    'if no reply of the service arrives, %s does not repeat a request that may have been sent',
    async (_, name, one, send) => {
      loses = true;
      const error = await failure(send(wayTo(one.destination, name)));
      expect(error.constructor.name).toBe(one.classes[3]);
      expect(provider.received.length).toBe(one.sendings);
    },
  );

  test('what octokit repeats by default, it does not repeat if its option `retry` says so', async () => {
    cut();
    const { base } = wayTo('github', 'baseURL');
    const client = new Octokit({ auth: key, baseUrl: base, retry: { enabled: false }, log: silent });
    expect((await failure(client.rest.issues.createComment(comment))).status).toBe(502);
    expect(provider.received.length).toBe(1);
  });

  test('if the service cannot be reached, the SDK throws, because nothing was sent', async () => {
    const { fetch } = new Sallyport({ url: 'http://127.0.0.1:1', key }).proxy('openai');
    expect(await failure(fetch('/v1/models'))).toBeInstanceOf(ConnectionError);
  });

  describe('stripe', () => {
    const client = (way: WayName = 'client.proxy(name).fetch') => {
      const { fetch } = wayTo('stripe', way);
      return new Stripe('unused', { httpClient: Stripe.createFetchHttpClient(fetch) });
    };

    test('works in Node.js, with its own HTTP client', async () => {
      const { host, port } = wayTo('stripe', 'the host options');
      const script = `import Stripe from 'stripe';
        const stripe = new Stripe('${key}', { host: '${host}', port: ${port}, protocol: 'http' });
        console.log((await stripe.charges.create({ amount: 5, currency: 'eur' })).id);`;
      const child = Bun.spawn(['node', '--input-type=module', '--eval', script], {
        cwd: root,
        stderr: 'inherit',
      });
      expect(await new Response(child.stdout).text()).toBe('ch_1\n');
      expect(provider.received.length).toBe(1);
    });

    test('gets errors of the provider as it sent them', async () => {
      const error = await failure(client().charges.create({ amount: 402, currency: 'eur' }));
      expect([error.constructor.name, error.code, error.message]).toEqual([
        'StripeCardError',
        'card_declined',
        'Declined.',
      ]);
    });

    test('sends the number of a stored card, and gets only its last digits', async () => {
      const stored = '{{ token: card-1 }}';
      const card = { number: stored, exp_month: stored as never, exp_year: stored as never };
      const method = await client().paymentMethods.create({ type: 'card', card });
      expect(method).toMatchObject({ id: 'pm_1', card: { last4: '4242' } });
      expect(method.card).not.toHaveProperty('number');
      const form = new URLSearchParams(provider.received[0]?.body.toString());
      expect([form.get('card[number]'), form.get('card[exp_year]')]).toEqual(['4242424242424242', '2030']);
    });

    test('cannot choose another account by accident', async () => {
      const error = await failure(
        client().charges.create({ amount: 5, currency: 'eur' }, { stripeAccount: 'acct_1' }),
      );
      expect([error.constructor.name, error.message]).toEqual([
        'StripeInvalidRequestError',
        expect.stringContaining('stripe-account'),
      ]);
      expect(provider.received).toEqual([]);
    });
  });

  describe.each(['baseURL', 'client.proxy(name).fetch'] as const)('streams with %s:', (name) => {
    const models = () => {
      const way = wayTo('openai', name);
      return openai(way, name === 'baseURL' ? { baseURL: `${way.base}/v1` } : { fetch: way.fetch });
    };
    const claude = () => {
      const way = wayTo('anthropic', name);
      return anthropic(way, name === 'baseURL' ? { baseURL: way.base } : { fetch: way.fetch });
    };
    const fromOpenai = async (parts: string[] = []) => {
      const stream = await models().chat.completions.create({ model: 'gate-1', messages, stream: true });
      for await (const { choices } of stream) parts.push(choices[0]?.delta.content ?? '');
      return parts;
    };
    const fromAnthropic = async (parts: string[] = []) => {
      const stream = claude().messages.stream({ model: 'gate-1', max_tokens: 9, messages });
      for await (const event of stream)
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta')
          parts.push(event.delta.text);
      return parts;
    };

    test.each([
      ['openai', fromOpenai],
      ['anthropic', fromAnthropic],
    ])('%s gets each event', async (_, read) => {
      expect(await read()).toEqual([...words]);
      expect(provider.received.length).toBe(1);
    });

    test.each([
      ['openai', fromOpenai],
      ['anthropic', fromAnthropic],
    ])('a stream that is cut is an error of %s, and is not requested again', async (_, read) => {
      isDirect = true;
      provider.answer = (response) => {
        response.writeHead(200, { 'Content-Type': 'text/event-stream' });
        response.write('data: {"choices":[{"index":0,"delta":{"content":"The"}}]}\n\n', () =>
          response.destroy(),
        );
      };
      expect(await failure(read())).toBeInstanceOf(Error);
      expect(provider.received.length).toBe(1);
    });

    test('openai gets audio byte by byte, and uploads a file', async () => {
      const speech = await models().audio.speech.create({ model: 'gate-1', voice: 'alloy', input: 'Hello' });
      expect(new Uint8Array(await speech.arrayBuffer())).toEqual(audio);
      const file = await toFile(audio, 'hello.mp3');
      expect(await models().files.create({ file, purpose: 'batch' })).toMatchObject({ id: 'file-1' });
      expect(provider.received.at(-1)?.body.includes(audio)).toBe(true);
      expect(provider.received.at(-1)?.headers['content-type']).toStartWith('multipart/form-data; boundary=');
    });

    test.each([
      ['openai', () => failure(fromOpenai()), modelErrors[3]],
      ['anthropic', () => failure(fromAnthropic()), modelErrors[3]],
    ])('a problem before the stream begins is an error of its class in %s', async (_, send, type) => {
      provider.answer = (response) => response.destroy();
      expect((await send()).constructor.name).toBe(type);
      expect(provider.received.length).toBe(1);
    });

    test('an error of the provider reaches the caller of openai unchanged', async () => {
      provider.answer = (response) =>
        json(response, { error: { message: 'Too long.', type: 'invalid', code: 'long' } }, 400);
      const error = await failure(fromOpenai());
      expect([error.constructor.name, error.code, error.message]).toEqual([
        'BadRequestError',
        'long',
        '400 Too long.',
      ]);
    });
  });
});
