import { beforeEach, describe, expect, test } from 'bun:test';
import { fail } from '../../../src/domain/error.ts';
import type { Principal } from '../../../src/domain/principal.ts';
import {
  type AuditRecorder,
  auditRecorder,
  maxGroups,
  maxIds,
} from '../../../src/http/pipeline/audit-recorder.ts';
import { recordDenial } from '../../../src/http/pipeline/denials.ts';
import { RequestInfo } from '../../../src/http/pipeline/request-info.ts';
import { makeLog } from '../../../src/log.ts';
import type { NewEntry, Store } from '../../../src/store/store.ts';

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
  const from = (address: string) => new RequestInfo(new Request('http://test/'), () => address);
  const deny = (operation: string, principal: Principal | undefined, address = '192.0.2.1', id?: string) =>
    recordDenial(recorder, {
      operation,
      principal,
      error: fail(principal ? 'permission_missing' : 'unauthenticated'),
      pathParams: { id },
      requestInfo: from(address),
    });
  const returned = () =>
    written.map(({ operation, tenantId, actor, count }) => [operation, tenantId, actor.id, count]);

  test('of one group are counted in one entry', async () => {
    for (let i = 0; i < 5; i++) deny('token.read', session('a', 's'));
    await recorder.flush();
    expect(returned()).toEqual([['token.read', 'a', 's', 5]]);
  });

  test('of a new group are due at once, repeated ones at the end of the minute', async () => {
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
    for (let i = 0; i < maxIds + 5; i++) deny('token.read', session('a', 's'), '192.0.2.1', `card-${i}`);
    await recorder.flush();
    expect(written).toMatchObject([{ count: maxIds + 5 }]);
    expect(written[0]?.resource?.ids).toEqual(Array.from({ length: maxIds }, (_, i) => `card-${i}`));
  });

  test('without a valid key become few entries, even from many addresses', async () => {
    for (let i = 0; i < 50; i++) deny('token.read', undefined, `2001:db8::${i.toString(16)}`);
    for (let i = 1; i < maxGroups + 30; i++) deny('token.read', undefined, `2001:db8:${i.toString(16)}::1`);
    deny('log.read', undefined, '192.0.2.1');
    await recorder.flush();
    const counts = written.map(({ count }) => count);
    expect(counts).toEqual([50, ...Array(maxGroups - 1).fill(undefined), 30, undefined]);
    expect(written.at(-1)).toMatchObject({ operation: 'log.read', actor: { kind: 'anonymous' }, from: {} });
  });

  test('that could not be written are written by the next flush', async () => {
    deny('token.read', session('a', 's'), '192.0.2.1', 'card-1');
    isDown = true;
    await recorder.flush();
    deny('token.read', session('a', 's'), '192.0.2.1', 'card-2');
    isDown = false;
    await recorder.flush();
    expect(written).toMatchObject([{ count: 2, resource: { ids: ['card-1', 'card-2'] } }]);
  });
});
