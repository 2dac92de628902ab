import { beforeEach, describe, expect, test } from 'bun:test';
import { fail } from '../../../src/domain/error.ts';
import type { Principal } from '../../../src/domain/principal.ts';
import { type DenialLog, denialLog } from '../../../src/http/pipeline/denial-log.ts';
import { RequestInfo } from '../../../src/http/pipeline/request-info.ts';
import { makeLog } from '../../../src/log.ts';
import type { NewEntry, Store } from '../../../src/store/store.ts';

const log = makeLog({ level: 'silent', write: () => {} });

describe('denials', () => {
  let written: NewEntry[];
  let isDown: boolean;
  let gathered: DenialLog;
  beforeEach(() => {
    [written, isDown] = [[], false];
    const write = async (entries: readonly NewEntry[]) => {
      if (isDown) throw new Error('down');
      written.push(...entries);
    };
    gathered = denialLog({ audit: { write } } as unknown as Store, log, () => 0);
  });

  const session = (tenantId: string, sessionId: string, applicationId = 'page') =>
    ({ kind: 'session', tenantId, sessionId, applicationId, now: 0 }) as Principal;
  const from = (address: string) => new RequestInfo(new Request('http://test/'), () => address);
  const deny = (operation: string, who: Principal | undefined, address = '192.0.2.1') =>
    gathered.record(operation, who, fail(who ? 'permission_missing' : 'unauthenticated'), from(address));
  const returned = () =>
    written.map(({ operation, tenantId, actor, count }) => [operation, tenantId, actor.id, count]);

  test('of one kind are counted in one entry', async () => {
    for (let i = 0; i < 5; i++) deny('token.read', session('a', 's'));
    await gathered.flush();
    expect(returned()).toEqual([['token.read', 'a', 's', 5]]);
  });

  test('of many sessions do not hide those of another application or operation', async () => {
    for (let i = 0; i < 150; i++) deny('token.read', session('a', `s${i}`));
    deny('application.create', session('a', 'late'));
    deny('application.create', session('a', 'stolen', 'backend'));
    await gathered.flush();
    expect(returned().slice(20)).toEqual([
      ['token.read', 'a', 'page', 130],
      ['application.create', 'a', 'page', undefined],
      ['application.create', 'a', 'stolen', undefined],
    ]);
  });

  test('without a valid key become few entries, even from many addresses', async () => {
    for (let i = 0; i < 50; i++) deny('token.read', undefined, `2001:db8::${i.toString(16)}`);
    for (let i = 1; i < 50; i++) deny('token.read', undefined, `2001:db8:${i.toString(16)}::1`);
    deny('log.read', undefined, '192.0.2.1');
    await gathered.flush();
    expect(written.map(({ count }) => count)).toEqual([50, ...Array(19).fill(undefined), 30, undefined]);
    expect(written.at(-1)).toMatchObject({ operation: 'log.read', actor: { kind: 'anonymous' }, from: {} });
  });

  test('that could not be written are written by the next flush', async () => {
    deny('token.read', session('a', 's'));
    isDown = true;
    await gathered.flush();
    deny('token.read', session('a', 's'));
    isDown = false;
    await gathered.flush();
    expect(returned()).toEqual([['token.read', 'a', 's', 2]]);
  });
});
