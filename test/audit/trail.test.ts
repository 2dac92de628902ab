import { beforeEach, describe, expect, test } from 'bun:test';
import { maxGroups, maxIds } from '../../src/audit/log/collector.ts';
import type { NewEntry } from '../../src/audit/records.ts';
import { entryOf, openTrail, type RecordedEvent, type Trail } from '../../src/audit/trail.ts';
import type { AuditedReads, EntryResource } from '../../src/domain/audit.ts';
import { compilePolicy } from '../../src/domain/policy.ts';
import type { Principal } from '../../src/domain/principal.ts';
import { noConnections, RequestInfo } from '../../src/http/pipeline/request-info.ts';
import { makeLog } from '../../src/telemetry/log.ts';

const log = makeLog({ level: 'silent', write: () => {} });

describe('counted events', () => {
  let written: NewEntry[];
  let isDown: boolean;
  let time: number;
  let recorder: Trail;
  beforeEach(() => {
    [written, isDown, time] = [[], false, 0];
    const write = async (entries: readonly NewEntry[]) => {
      if (isDown) throw new Error('down');
      written.push(...entries);
    };
    recorder = openTrail({ write }, { reads: 'reveal', now: () => time, log });
  });

  const session = (tenantId: string, sessionId: string, applicationId = 'page') =>
    ({ kind: 'session', tenantId, sessionId, applicationId, now: 0 }) as Principal;
  const from = (address: string) =>
    new RequestInfo(new Request('http://test/'), {
      ...noConnections,
      senderOf: () => ({ address, isCertain: true }),
    });
  const deny = (operation: string, caller: Principal, resource?: EntryResource, isStored = false) => {
    const denial = { reason: 'permission_missing', decision: {}, resource, isStored };
    recorder.record([{ kind: 'denial', caller, client: from('192.0.2.1'), operation, ...denial }]);
  };
  const fails = (operation: string, address: string) => {
    const client = from(address);
    recorder.record([{ kind: 'unauthenticated', client, operation, reason: 'unauthenticated' }]);
  };
  const returned = () =>
    written.map(({ operation, tenantId, actor, count }) => [operation, tenantId, actor.id, count]);

  test('of one group are counted in one entry', async () => {
    for (let i = 0; i < 5; i++) deny('token.read', session('a', 's'));
    await recorder.flush();
    expect(returned()).toEqual([['token.read', 'a', 's', 5]]);
  });

  test('of a new group are due immediately, repeated ones at the end of the minute', async () => {
    deny('token.read', session('a', 's'));
    await recorder.writeDue();
    expect(written.splice(0)).toHaveLength(1);
    for (time = 1000; time < 60_000; time += 1000) {
      deny('token.read', session('a', 's'));
      await recorder.writeDue();
      expect(written).toEqual([]);
    }
    await recorder.writeDue();
    expect(returned()).toEqual([['token.read', 'a', 's', 59]]);
    deny('token.read', session('a', 's'));
    await recorder.writeDue();
    expect(written).toHaveLength(2);
  });

  test('of many sessions do not hide those of another application or operation', async () => {
    for (let i = 0; i < maxGroups + 130; i++) deny('token.read', session('a', `s${i}`));
    deny('application.create', session('a', 'late'));
    deny('application.create', session('a', 'stolen', 'backend'));
    await recorder.flush();
    expect(returned().slice(maxGroups)).toEqual([
      ['token.read', 'a', 'page', 130],
      ['application.create', 'a', 'page', undefined],
      ['application.create', 'a', 'stolen', undefined],
    ]);
  });

  test('list a bounded number of ids', async () => {
    for (let i = 0; i < maxIds + 5; i++) deny('token.read', session('a', 's'), { ids: [`card-${i}`] });
    deny('token.read', session('a', 's'), { ids: ['card-0', 'card-1'] });
    await recorder.flush();
    const ids = Array.from({ length: maxIds }, (_, i) => `card-${i}`);
    expect(written).toMatchObject([{ count: maxIds + 6, resource: { ids, omitted: 5 } }]);
  });

  test('about made-up ids and containers do not displace those about stored tokens', async () => {
    const caller = session('a', 's');
    for (let i = 0; i < 2 * maxGroups; i++)
      deny('token.read', caller, { ids: [`none-${i}`], container: `/none/${i}/` });
    deny('token.read', caller, { ids: ['card-1'], container: '/cards/' }, true);
    await recorder.flush();
    expect(written.filter(({ overflow }) => overflow)).toMatchObject([
      { count: maxGroups, resource: { container: '/none/', omitted: maxGroups - maxIds } },
    ]);
    expect(written.at(-1)).toMatchObject({ actor: { id: 's' }, resource: { ids: ['card-1'] } });
  });

  test('of too many groups list the stored tokens in the overflow entry', async () => {
    const denyStored = (at: number, container: string) =>
      deny('token.read', session('a', `s${at}`), { ids: [`card-${at % 3}`], container }, true);
    for (let i = 0; i < maxGroups; i++) denyStored(i, '/pci/');
    denyStored(1, '/cards/42/');
    denyStored(2, '/cards/7/');
    await recorder.flush();
    expect(written).toHaveLength(maxGroups + 1);
    expect(written.at(-1)).toMatchObject({
      actor: { kind: 'application', id: 'page' },
      overflow: true,
      count: 2,
      resource: { ids: ['card-1', 'card-2'], container: '/cards/' },
    });
  });

  test('of a person are counted apart from those of others, also beyond the limit', async () => {
    const person = (subject: string) =>
      ({
        kind: 'application',
        tenantId: 'a',
        applicationId: 'page',
        person: { subject },
        now: 0,
      }) as Principal;
    for (let i = 0; i < maxGroups + 2; i++) deny('token.read', person('ada'), { container: `/${i}/` });
    deny('token.read', person('bob'), { container: '/0/' });
    await recorder.flush();
    expect(written).toHaveLength(maxGroups + 2);
    const subjects = written.map(({ actor, overflow, count }) => [actor.person?.subject, overflow, count]);
    expect(subjects.slice(-2)).toEqual([
      ['ada', true, 2],
      ['bob', undefined, undefined],
    ]);
  });

  test('without a valid key become few entries, even from many addresses', async () => {
    for (let i = 0; i < 50; i++) fails('token.read', `2001:db8::${i.toString(16)}`);
    for (let i = 1; i < maxGroups + 30; i++) fails('token.read', `2001:db8:${i.toString(16)}::1`);
    fails('log.read', '192.0.2.1');
    await recorder.flush();
    const counts = written.map(({ count }) => count);
    expect(counts).toEqual([50, ...Array(maxGroups - 1).fill(undefined), 30, undefined]);
    expect(written.at(-1)).toMatchObject({ operation: 'log.read', actor: { kind: 'anonymous' }, from: {} });
  });

  test('reads are counted by session, container, transform and purpose', async () => {
    const all = openTrail(
      { write: async (entries) => void written.push(...entries) },
      { reads: 'all', now: () => time, log },
    );
    const read = (id: string, transform: 'mask' | 'redact', container = '/pci/', purpose = 'x') => {
      const caller = {
        ...session('a', id),
        policy: compilePolicy({ permissions: [], rules: [] }),
      } as Principal;
      const headers = { 'SVC-PURPOSE': purpose };
      const client = new RequestInfo(new Request('http://test/', { headers }), noConnections);
      const disclosure = { tokens: [{ id: 'card', container }], transform };
      all.record([{ kind: 'read', caller, client, operation: 'token.read', disclosure }]);
    };
    read('s', 'mask');
    read('s', 'mask');
    read('s', 'redact');
    read('t', 'mask');
    read('s', 'mask', '/other/');
    read('s', 'mask', '/pci/', 'y');
    await all.flush();
    const entries = written.map(({ actor, decision, resource, purpose, count }) =>
      [actor.id, decision?.transform, resource?.container, purpose, count ?? 1].join(' '),
    );
    expect(entries).toEqual([
      's mask /pci/ x 2',
      's redact /pci/ x 1',
      't mask /pci/ x 1',
      's mask /other/ x 1',
      's mask /pci/ y 1',
    ]);
  });

  test('of two tenants are never counted in one entry, also beyond the limit', async () => {
    const refused = (tenantId: string, problem: string) => {
      const refusal = { operation: 'person.sign_in', reason: 'sign_in_refused', apart: [problem] };
      const client = from('192.0.2.1');
      recorder.record([{ kind: 'unauthenticated', client, target: { tenantId }, ...refusal }]);
    };
    for (let i = 0; i < maxGroups + 2; i++) for (const tenant of ['a', 'b']) refused(tenant, `${i}`);
    for (const tenant of ['a', 'b']) deny('token.read', session(tenant, 's'));
    await recorder.flush();
    const counts = (tenant: string) => written.filter(({ tenantId }) => tenantId === tenant);
    for (const tenant of ['a', 'b'])
      expect(counts(tenant).map(({ count = 1 }) => count)).toEqual([...Array(maxGroups).fill(1), 2, 1]);
  });

  test('that could not be written are written by the next flush', async () => {
    deny('token.read', session('a', 's'), { ids: ['card-1'], container: '/a/', omitted: 2 });
    isDown = true;
    await recorder.flush();
    deny('token.read', session('a', 's'), { ids: ['card-2'], container: '/a/' });
    isDown = false;
    await recorder.flush();
    const resource = { ids: ['card-1', 'card-2'], container: '/a/', omitted: 2 };
    expect(written).toMatchObject([{ count: 2, resource }]);
  });
});

describe('when the log cannot be written', () => {
  const caller = {
    kind: 'application',
    tenantId: 'tenant',
    applicationId: 'backend',
    now: 5,
    policy: compilePolicy({ permissions: ['token:read'], rules: [] }),
  } as unknown as Principal;
  const client = new RequestInfo(new Request('http://test/'), noConnections);
  const by = { caller, client, operation: 'token.read' };
  const disclosure = { tokens: [{ id: 'card', container: '/pci/' }], transform: 'reveal' } as const;
  const use = {
    ...{ caller, client, tokens: disclosure.tokens },
    destination: { id: 'id-1', name: 'bank' },
    request: { method: 'POST', path: '/charges/:id' },
  };

  async function outcome(events: readonly RecordedEvent[], reads: AuditedReads = 'reveal') {
    const logged: string[] = [];
    let isDown = true;
    const written: NewEntry[] = [];
    const write = async (entries: readonly NewEntry[]) => {
      if (isDown) throw new Error('down');
      written.push(...entries);
    };
    const trail = openTrail({ write }, { reads, now: () => 0, log: { error: (text) => logged.push(text) } });
    const before = trail.record(events);
    const code = before && (await before.then(() => 'sent').catch((error: { code: string }) => error.code));
    await trail.flush();
    isDown = false;
    await trail.flush();
    return { code, logged, later: written.map(({ tenantId }) => tenantId ?? 'none') };
  }

  const waits = 'denials and reads could not be written to the audit log yet';
  const kept = { code: undefined, logged: [waits] };
  const required = { code: 'unavailable', logged: [], later: [] };
  const names = { names: ['pan'], hits: 0 };
  const denial = { reason: 'permission_missing', decision: {} };
  const cases: Record<RecordedEvent['kind'], [RecordedEvent, object]> = {
    disclosure: [{ kind: 'disclosure', ...by, disclosure }, required],
    search: [{ kind: 'search', ...by, search: names, disclosure: undefined }, required],
    report: [{ kind: 'report', ...by, actor: caller, purpose: undefined, disclosure }, required],
    outcome: [
      { kind: 'outcome', use: entryOf({ kind: 'use', ...use }), status: 200, reason: undefined },
      { code: 'sent', logged: ['the outcome of a use was not recorded'], later: [] },
    ],
    read: [
      { kind: 'read', ...by, disclosure: { ...disclosure, transform: 'mask' } },
      { ...kept, later: ['tenant'] },
    ],
    denial: [
      { kind: 'denial', ...by, ...denial },
      { ...kept, later: ['tenant'] },
    ],
    unauthenticated: [
      { kind: 'unauthenticated', client, operation: 'token.read', reason: 'unauthenticated' },
      { ...kept, later: ['none'] },
    ],
    quarantined: [
      { kind: 'quarantined', ...by, result: 'success', ids: [] },
      { ...kept, later: ['tenant'] },
    ],
    breakGlass: [
      { kind: 'breakGlass', caller, client },
      { ...kept, later: ['tenant'] },
    ],
  };

  test.each(Object.entries(cases))(
    'a %s is refused, logged or written later',
    async (_kind, [event, expected]) => {
      expect(await outcome([event], 'all')).toEqual(expected as never);
    },
  );

  test('a reply with plaintext is refused, also if other events of it are only counted', async () => {
    const [[read], [plaintext]] = [cases.read, cases.disclosure];
    expect(await outcome([read, plaintext], 'all')).toMatchObject({ code: 'unavailable', later: ['tenant'] });
  });

  test('reads that the setting excludes are not recorded, except in quarantine', async () => {
    const [[read], [plaintext]] = [cases.read, cases.disclosure];
    expect(await outcome([read], 'reveal')).toEqual({ code: undefined, logged: [], later: [] });
    expect(await outcome([plaintext], 'reveal')).toEqual(required as never);
    expect(await outcome([read, plaintext], 'off')).toEqual({ code: undefined, logged: [], later: [] });
    const quarantined = { ...caller, policy: { ...caller.policy, quarantined: 'application' } } as never;
    expect(await outcome([{ ...read, caller: quarantined } as never], 'off')).toMatchObject({
      logged: [waits],
    });
    expect(await outcome([{ ...plaintext, caller: quarantined } as never], 'off')).toEqual(required as never);
  });

  test('entries of a use and its outcome name the destination, the path pattern and the tokens that were sent', () => {
    const tokens = ['a', 'b'].map((id) => ({ id, container: `/cards/${id}/` }));
    const entry = entryOf({ kind: 'use', ...use, tokens });
    expect(entry).toMatchObject({
      ...{ tenantId: 'tenant', at: 5, operation: 'token.use', result: 'success' },
      resource: { ids: ['a', 'b'], container: '/cards/' },
      use: { destination: 'id-1', name: 'bank', method: 'POST', path: '/charges/:id' },
    });
  });
});
