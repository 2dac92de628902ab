/** "Revoked means refused": concurrent uses, quarantines and revocations on three nodes, with faults. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { isLinearizable, type Operation } from '../support/linearizability.ts';
import { openTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { openTestServer, postgres, type TestServer, testMasterKey } from '../support/test-server.ts';

type State = 'open' | 'quarantined' | 'revoked';
type Event = Operation<State>;
/** A quarantine of a revoked key changes nothing that its holder can see. */
const apply = (state: State, written: State): State => (state === 'revoked' ? state : written);
const isSound = (history: readonly Event[]) => isLinearizable(history, 'open', apply);
const write = (value: State, start: number, end?: number): Event => ({ kind: 'write', value, start, end });
const read = (value: State, start: number, end?: number): Event => ({ kind: 'read', value, start, end });

describe('the checker', () => {
  test.each<[name: string, history: Event[], sound: boolean]>([
    ['a use during the revocation, accepted', [write('revoked', 1, 4), read('open', 2, 3)], true],
    ['a use during the revocation, refused', [write('revoked', 1, 4), read('revoked', 2, 3)], true],
    ['a use after the revocation, accepted', [write('revoked', 1, 2), read('open', 3, 4)], false],
    ['a refusal without a revocation', [read('revoked', 1, 2)], false],
    ['a refusal before the revocation', [read('revoked', 1, 2), write('revoked', 3, 4)], false],
    ['refused, then accepted', [write('revoked', 1, 9), read('revoked', 2, 3), read('open', 4, 5)], false],
    ['accepted, then refused', [write('revoked', 1, 9), read('open', 2, 3), read('revoked', 4, 5)], true],
    ['two nodes that disagree', [write('revoked', 1, 9), read('revoked', 2, 5), read('open', 6, 7)], false],
    ['no answer, never done', [write('revoked', 1), read('open', 2, 3)], true],
    ['no answer, done later', [write('revoked', 1), read('open', 2, 3), read('revoked', 4, 5)], true],
    ['no answer, done and undone', [write('revoked', 1), read('revoked', 2, 3), read('open', 4, 5)], false],
    ['a use without an answer', [write('revoked', 1, 2), read('open', 3)], true],
    [
      'a quarantine that ends, seen late',
      [write('quarantined', 1, 2), write('open', 3, 4), read('quarantined', 5, 6)],
      false,
    ],
    [
      'a quarantine of a revoked key',
      [write('revoked', 1, 2), write('quarantined', 3, 4), read('quarantined', 5, 6)],
      false,
    ],
  ])('%s: %#', (_, history, sound) => {
    expect(isSound(history)).toBe(sound);
  });

  test('decides like trying every order', () => {
    const event = fc.record({
      kind: fc.constantFrom('read' as const, 'write' as const),
      value: fc.constantFrom<State>('open', 'quarantined', 'revoked'),
      start: fc.integer({ min: 0, max: 9 }),
      length: fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
    });
    let sound = 0;
    const property = fc.property(fc.array(event, { maxLength: 5 }), (drawn) => {
      const history = drawn.map(({ length, start, ...each }, index) => ({
        ...each,
        start: start + index / 10,
        end: length === undefined ? undefined : start + length + index / 10 + 0.05,
      }));
      const expected = hasOrder(history);
      if (expected) sound++;
      expect(isSound(history)).toBe(expected);
    });
    fc.assert(property, { numRuns: 2000, seed: 1 });
    expect(sound).toBeGreaterThan(100);
    expect(sound).toBeLessThan(1900);
  });
});

/** Tries every order of every choice of the operations without an answer. */
function hasOrder(history: readonly Event[]): boolean {
  const place = (done: readonly Event[], left: readonly Event[]): boolean => {
    if (left.every(({ end }) => end === undefined) && isValid(done)) return true;
    return left.some((each) =>
      place(
        [...done, each],
        left.filter((other) => other !== each),
      ),
    );
  };
  return place([], history);
}

function isValid(order: readonly Event[]): boolean {
  let state: State = 'open';
  for (const [index, each] of order.entries()) {
    if (order.slice(index + 1).some(({ end = Number.POSITIVE_INFINITY }) => end <= each.start)) return false;
    if (each.kind === 'write') state = apply(state, each.value);
    else if (each.end !== undefined && each.value !== state) return false;
  }
  return true;
}

describe('three nodes on PostgreSQL, one behind a connection with faults', () => {
  let nodes: TestServer[];
  let proxy: TcpProxy;
  let owner: string;
  beforeAll(async () => {
    const first = await openTestServer(postgres, { SALLYPORT_MASTER_KEY: testMasterKey });
    const url = new URL(first.config.databaseUrl);
    proxy = await openTcpProxy(Number(url.port));
    url.port = String(proxy.port);
    nodes = [
      first,
      await openTestServer(first.config.databaseUrl),
      await openTestServer(url.href, { SALLYPORT_DATABASE_TIMEOUT: '300' }),
    ];
    owner = (await first.tenant()).key;
  });
  afterAll(async () => {
    proxy.setMode('pass');
    for (const node of nodes.toReversed()) await node.close();
    await proxy.close();
  });

  const faults: Record<string, [begin: () => void, end: () => void]> = {
    'no fault': [() => {}, () => {}],
    'a delay': [() => proxy.setDelay(20), () => proxy.setDelay(0)],
    'closed connections': [() => proxy.disconnect(), () => {}],
    'a partition': [() => proxy.setMode('swallow'), () => proxy.setMode('pass')],
    'answers that are lost': [() => proxy.setMode('mute'), () => proxy.setMode('pass')],
  };

  test.each(Object.entries(faults))(
    'with %s, every history could have happened in order',
    async (_, fault) => {
      const [first] = nodes as [TestServer, ...TestServer[]];
      const seen = new Set<State>();
      for (let round = 0; round < 4; round++) {
        const app = await first.application(owner, {
          rules: [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] }],
        });
        const token = (await first.call('POST', '/tokens', { key: owner, body: { data: 'x', mask: 'm' } }))
          .body;
        const history: Event[] = [];
        let now = 0;
        const use = async (node: TestServer) => {
          const start = now++;
          const { status, body } = await node.call('GET', `/tokens/${token.id}`, { key: app.key });
          if (status !== 200 && status !== 401) return;
          const value = status === 401 ? 'revoked' : body.data === 'x' ? 'open' : 'quarantined';
          seen.add(value);
          history.push(read(value, start, now++));
        };
        const change = async (node: TestServer, method: string, path: string, value: State) => {
          const start = now++;
          const { status } = await node.call(method, `/applications/${app.id}/${path}`, { key: owner });
          history.push(write(value, start, status < 300 ? now++ : undefined));
        };
        const uses = nodes.map(async (node) => {
          for (let turn = 0; turn < 10; turn++) await use(node);
        });
        const [begin, end] = fault;
        const last = nodes[(round % 2) * 2] as TestServer;
        const changes = async () => {
          await change(first, 'POST', 'quarantine', 'quarantined');
          begin();
          await change(nodes[1] as TestServer, 'DELETE', 'quarantine', 'open');
          await change(last, 'POST', 'regenerate', 'revoked');
          end();
        };
        await Promise.all([...uses, changes()]);
        for (const node of nodes) await use(node);
        expect({ sound: isSound(history), history: isSound(history) ? [] : history }).toEqual({
          sound: true,
          history: [],
        });
      }
      expect(seen.has('open') || seen.has('quarantined')).toBe(true);
    },
  );
});
