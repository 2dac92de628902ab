import { beforeEach, describe, expect, test } from 'bun:test';
import type { EntryResource } from '../../../src/domain/audit.ts';
import { fail } from '../../../src/domain/error.ts';
import type { Principal } from '../../../src/domain/principal.ts';
import {
  type AuditRecorder,
  auditRecorder,
  maxGroups,
  maxIds,
} from '../../../src/http/pipeline/audit-recorder.ts';
import { addDenial, recordDenial } from '../../../src/http/pipeline/denials.ts';
import { noConnections, RequestInfo } from '../../../src/http/pipeline/request-info.ts';
import type { KeyedRoute } from '../../../src/http/pipeline/route.ts';
import { routes } from '../../../src/http/routes.ts';
import type { NewEntry, Store } from '../../../src/store/store.ts';
import { makeLog } from '../../../src/telemetry/log.ts';

const log = makeLog({ level: 'silent', write: () => {} });

describe('events', () => {
  let written: NewEntry[];
  let isDown: boolean;
  let time: number;
  let recorder: AuditRecorder;
  beforeEach(() => {
    [written, isDown, time] = [[], false, 0];
    const write = async (entries: readonly NewEntry[]) => {
      if (isDown) throw new Error('down');
      written.push(...entries);
    };
    recorder = auditRecorder({ audit: { write } } as unknown as Store, log, () => time);
  });

  const session = (tenantId: string, sessionId: string, applicationId = 'page') =>
    ({ kind: 'session', tenantId, sessionId, applicationId, now: 0 }) as Principal;
  const from = (address: string) =>
    new RequestInfo(new Request('http://test/'), {
      ...noConnections,
      senderOf: () => ({ address, isCertain: true }),
    });
  const deny = (operation: string, actor: Principal, resource?: EntryResource, isStored = false) =>
    addDenial(
      recorder,
      { operation, actor, reason: 'permission_missing', decision: {}, resource, isStored },
      actor,
      from('192.0.2.1'),
    );
  const fails = (name: string, address: string) => {
    const route = routes.find((one) => one.name === name) as KeyedRoute;
    const rejected = { route, request: new Request('http://test/'), pathParams: {}, receiving: undefined };
    const error = fail('unauthenticated');
    const store = {} as Store;
    recordDenial(
      { auditRecorder: recorder, store },
      { ...rejected, principal: undefined, error, requestInfo: from(address) },
    );
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
    for (let i = 0; i < 50; i++) fails('listTokens', `2001:db8::${i.toString(16)}`);
    for (let i = 1; i < maxGroups + 30; i++) fails('listTokens', `2001:db8:${i.toString(16)}::1`);
    fails('listLogs', '192.0.2.1');
    await recorder.flush();
    const counts = written.map(({ count }) => count);
    expect(counts).toEqual([50, ...Array(maxGroups - 1).fill(undefined), 30, undefined]);
    expect(written.at(-1)).toMatchObject({ operation: 'log.read', actor: { kind: 'anonymous' }, from: {} });
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
