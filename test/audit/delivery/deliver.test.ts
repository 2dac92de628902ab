import { beforeEach, describe, expect, test } from 'bun:test';
import { DeliveryError } from '../../../src/audit/delivery/sender.ts';
import { delayAfter } from '../../../src/audit/delivery.ts';
import { anchorOf, type Head, systemTenant } from '../../../src/audit/records.ts';
import {
  openOtlpReceiver,
  openWebhookReceiver,
  type WebhookReceiver,
  webhookSecret,
} from '../../support/sink-receivers.ts';
import { openDelivery, openSink, operationsOf, writeEntries } from '../../support/test-delivery.ts';
import { databases } from '../../support/test-server.ts';
import { openTestStore, type TestStore } from '../../support/test-store.ts';
import { until } from '../../support/until.ts';

describe.each(databases)('delivery on %s', (name, database) => {
  let data: TestStore;
  let receiver: WebhookReceiver;
  beforeEach(async () => {
    data = await openTestStore(database);
    receiver = openWebhookReceiver();
  });

  const webhook = (fields: object = {}) =>
    openSink({ type: 'webhook', url: receiver.url, secret: webhookSecret, allow_private: true, ...fields });
  const start = (sinks = [webhook()], maintenance = data.maintenance) =>
    openDelivery(sinks, data, maintenance);

  test('sends every segment once, in order, and continues after a restart', async () => {
    const tenant = await data.tenant();
    await writeEntries(data, tenant, 'a', 'b');
    await writeEntries(data, tenant, 'c');
    await writeEntries(data, undefined, 's');
    const first = start();
    await first.flush();
    await first.flush();
    expect(operationsOf(receiver, tenant)).toEqual(['1 a', '2 b', '3 c']);
    expect(operationsOf(receiver, undefined)).toEqual(['1 s']);
    const sent = receiver.received.filter(({ data: { tenant_id } }) => tenant_id === tenant);
    expect(sent.map(({ data: { segment } }) => segment.number)).toEqual([1, 2]);
    const heads = await data.maintenance.audit.heads();
    const anchor = anchorOf(heads.find(({ tenantId }) => tenantId === tenant) as Head);
    expect(sent[1]?.data.segment.anchor).toBe(anchor);
    expect(sent[1]?.id).toBe(`audit_${anchor.replaceAll(':', '_')}`);
    await first.stop();
    await writeEntries(data, tenant, 'd');
    await start().flush();
    expect(operationsOf(receiver, tenant)).toEqual(['1 a', '2 b', '3 c', '4 d']);
    expect(receiver.invalid).toEqual([]);
  });

  test('repeats an unconfirmed segment with the same id, after a growing delay', async () => {
    const tenant = await data.tenant();
    await writeEntries(data, tenant, 'a', 'b');
    const sent: (string | null)[] = [];
    receiver.setAnswer((request) => {
      sent.push(request.headers.get('webhook-id'));
      return new Response(null, { status: 500 });
    });
    const delivery = start();
    await delivery.flush();
    await delivery.flush();
    expect(sent).toHaveLength(1);
    data.clock.advance(1000);
    await delivery.flush();
    data.clock.advance(1999);
    await delivery.flush();
    expect(sent).toHaveLength(2);
    const [state] = await delivery.states();
    expect(state).toMatchObject({ lagEntries: 2, lagSeconds: 2.999, failures: 2, lastDeliveryAt: undefined });
    expect(state?.lastError).toBe('the receiver answered with status 500');
    receiver.setAnswer(undefined);
    data.clock.advance(1);
    const restarted = start();
    await delivery.stop();
    await restarted.flush();
    expect(receiver.received.map(({ id }) => id)).toEqual([sent[0] as string]);
    expect(sent[1]).toBe(sent[0] as string);
    await writeEntries(data, tenant, 'c');
    await restarted.flush();
    expect(operationsOf(receiver, tenant)).toEqual(['1 a', '2 b', '3 c']);
    expect(await restarted.states()).toMatchObject([{ lagEntries: 0, lagSeconds: 0, failures: 0 }]);
  });

  test('continues in order within 30 seconds after an outage of an hour, with few attempts until then', async () => {
    const tenant = await data.tenant();
    let attempts = 0;
    receiver.setAnswer(() => {
      attempts++;
      return new Response(null, { status: 503 });
    });
    const delivery = start();
    const minutes = Array.from({ length: 60 }, (_, minute) => `minute ${minute}`);
    for (const operation of minutes) {
      await writeEntries(data, tenant, operation);
      for (let count = 0; count < 6; count++) {
        await delivery.flush();
        data.clock.advance(10_000);
      }
    }
    expect(attempts).toBeGreaterThanOrEqual(120);
    expect(attempts).toBeLessThan(130);
    expect(await delivery.states()).toMatchObject([{ lagEntries: 60, lagSeconds: 3600, failures: attempts }]);
    receiver.setAnswer(undefined);
    data.clock.advance(30_000);
    await delivery.flush();
    expect(operationsOf(receiver, tenant)).toEqual(
      minutes.map((operation, index) => `${index + 1} ${operation}`),
    );
    expect(await delivery.states()).toMatchObject([{ lagEntries: 0, failures: 0 }]);
  });

  test('is retried without waiting for the interval of the sink', async () => {
    await writeEntries(data, await data.tenant(), 'a');
    receiver.setAnswer(() => new Response(null, { status: 500 }));
    const delivery = openDelivery([webhook({ interval: 3600 })], data, data.maintenance, true);
    await delivery.flush();
    receiver.setAnswer(undefined);
    data.clock.advance(1000);
    await until('the entry arrives', () => receiver.received.length === 1);
    await delivery.stop();
  });

  test('repeats the same bytes after new entries were written', async () => {
    const tenant = await data.tenant();
    await writeEntries(data, tenant, 'a');
    const bodies = new Map<string, string[]>();
    receiver.setAnswer(async (request) => {
      const id = request.headers.get('webhook-id') as string;
      bodies.set(id, [...(bodies.get(id) ?? []), await request.text()]);
      return new Response(null, { status: 500 });
    });
    const delivery = start();
    for (const operation of ['b', 'c']) {
      await delivery.flush();
      data.clock.advance(60_000);
      await writeEntries(data, tenant, operation);
    }
    await delivery.flush();
    expect(bodies.size).toBe(1);
    expect([...bodies.keys()][0]).toStartWith(`audit_${tenant}_1_`);
    const [[first, second, third] = []] = bodies.values();
    expect([second, third]).toEqual([first, first]);
  });

  test('is done by one node, and by another after the first was killed or stopped', async () => {
    const tenant = await data.tenant();
    const { maintenance } = await data.open();
    const [first, second] = [start(), start(undefined, maintenance)];
    await second.flush();
    data.clock.advance(45_000);
    await first.flush();
    await writeEntries(data, tenant, 'a');
    await second.flush();
    expect(receiver.received).toEqual([]);
    await Promise.all([first.flush(), second.flush()]);
    await writeEntries(data, tenant, 'b');
    data.clock.advance(45_000);
    await Promise.all([second.flush(), second.flush()]);
    expect(operationsOf(receiver, tenant)).toEqual(['1 a', '2 b']);
    await writeEntries(data, tenant, 'c');
    await first.flush();
    expect(operationsOf(receiver, tenant)).toEqual(['1 a', '2 b']);
    await second.stop();
    await first.flush();
    expect(operationsOf(receiver, tenant)).toEqual(['1 a', '2 b', '3 c']);
  });

  test('starts immediately on SQLite after the process was killed, and on PostgreSQL when its lease has expired', async () => {
    const tenant = await data.tenant();
    await start().flush();
    await writeEntries(data, tenant, 'a');
    const restarted = start();
    await restarted.flush();
    const atOnce = name === 'SQLite' ? ['1 a'] : [];
    expect(operationsOf(receiver, tenant)).toEqual(atOnce);
    data.clock.advance(45_000);
    await restarted.flush();
    expect(operationsOf(receiver, tenant)).toEqual(['1 a']);
  });

  test('a node that lost its lease while it was sending does not record its failure', async () => {
    const tenant = await data.tenant();
    await writeEntries(data, tenant, 'a');
    const { maintenance } = await data.open();
    const other = start(undefined, maintenance);
    let isFirst = true;
    receiver.setAnswer(async () => {
      if (!isFirst) return undefined;
      isFirst = false;
      data.clock.advance(45_000);
      await other.flush();
      await writeEntries(data, tenant, 'b');
      return new Response(null, { status: 503 });
    });
    const slow = start();
    await slow.flush();
    const [state] = await other.states();
    expect(state).toMatchObject({ lagEntries: 1, failures: 0, lastError: undefined });
    await other.flush();
    expect(operationsOf(receiver, tenant)).toEqual(['1 a', '2 b']);
  });

  test('of other tenants and to other sinks continues when a receiver rejects a batch', async () => {
    const [bad, good] = [await data.tenant(), await data.tenant()];
    await writeEntries(data, bad, 'x');
    const second = openWebhookReceiver();
    const delivery = start([
      webhook(),
      openSink({
        name: 'second',
        type: 'webhook',
        url: second.url,
        secret: webhookSecret,
        allow_private: true,
      }),
    ]);
    receiver.setAnswer(async (request) =>
      (await request.text()).includes(bad) ? new Response(null, { status: 400 }) : undefined,
    );
    await delivery.flush();
    await writeEntries(data, good, 'y', 'z');
    data.clock.advance(1000);
    await delivery.flush();
    expect(operationsOf(receiver, good)).toEqual(['1 y', '2 z']);
    expect(operationsOf(second, bad)).toEqual(['1 x']);
    expect(operationsOf(second, good)).toEqual(['1 y', '2 z']);
    expect(await delivery.deliveredUpTo(bad)).toBe(0);
    expect(await delivery.deliveredUpTo(good)).toBe(1);
    expect(await delivery.deliveredUpTo(systemTenant)).toBe(0);
    expect(await start([]).deliveredUpTo(good)).toBeUndefined();
    await second.close();
  });

  const errorsOf = ({ logged }: { logged: string[] }) =>
    logged.map((line) => JSON.parse(line)).filter(({ level }) => level === 'error');

  test.each([
    ['is missing', 'delete from audit_segments'],
    ['cannot be read', 'update audit_segments set entries = content_hash'],
  ])('stops in a chain in which a segment %s, and goes on in others', async (_, damage) => {
    const tenant = await data.tenant();
    for (const operation of ['a', 'b', 'c']) await writeEntries(data, tenant, operation);
    await data.runSql(`${damage} where number = 2`);
    const delivery = start();
    await delivery.flush();
    expect(operationsOf(receiver, tenant)).toEqual(['1 a']);
    const message = `the audit chain ${tenant} does not verify, so its entries cannot be delivered`;
    expect(errorsOf(delivery)).toMatchObject([{ message, sink: 'default' }]);
    expect(await delivery.states()).toMatchObject([{ failures: 1, lagEntries: 2, lastError: message }]);
    const other = await data.tenant();
    await writeEntries(data, other, 'd');
    for (let run = 0; run < 4; run++) {
      data.clock.advance(30_000);
      await delivery.flush();
    }
    expect(operationsOf(receiver, other)).toEqual(['1 d']);
    expect(operationsOf(receiver, tenant)).toEqual(['1 a']);
    expect(await delivery.deliveredUpTo(tenant)).toBe(1);
  });

  test('starts at the first segment that was not archived', async () => {
    const tenant = await data.tenant();
    for (const operation of ['a', 'b', 'c']) await writeEntries(data, tenant, operation);
    await data.runSql('delete from audit_segments where number <= 2');
    await data.runSql('update audit_chains set base_number = 2, base_seq = 2');
    const delivery = start();
    await delivery.flush();
    expect(operationsOf(receiver, tenant)).toEqual(['3 c']);
    expect(delivery.logged.join()).not.toContain('missing');
  });

  test('delivers within 30 seconds after a long outage of the receiver, which got one segment per attempt', async () => {
    const tenant = await data.tenant();
    for (const operation of ['a', 'b', 'c']) await writeEntries(data, tenant, operation);
    const delivery = start();
    let attempts = 0;
    receiver.setAnswer(() => {
      attempts++;
      return new Response(null, { status: 503 });
    });
    for (let seconds = 0; seconds < 1200; seconds += 30) {
      await delivery.flush();
      data.clock.advance(30_000);
    }
    expect(attempts).toBe(40);
    await delivery.flush();
    receiver.setAnswer(() => undefined);
    data.clock.advance(30_000);
    await delivery.flush();
    expect(operationsOf(receiver, tenant)).toEqual(['1 a', '2 b', '3 c']);
  });

  test('stops in a chain whose position was changed, and starts at its first segment when that is acknowledged', async () => {
    const [tenant, other] = [await data.tenant(), await data.tenant()];
    await writeEntries(data, tenant, 'a', 'b');
    const delivery = start();
    await delivery.flush();
    await writeEntries(data, tenant, 'c', 'd');
    await writeEntries(data, other, 'x');
    const { deliveries } = data.maintenance.sinks;
    for (const number of [2, 1, 100]) {
      await data.runSql(
        `update audit_deliveries set number = ${number}, seq = 9 where tenant_id = '${tenant}'`,
      );
      expect(await deliveries.receivedUpTo('default', tenant)).toBe(0);
      expect(await deliveries.deliveredUpTo('default', tenant)).toBe(0);
      expect(await delivery.states()).toMatchObject([{ changedPositions: 1 }]);
      data.clock.advance(60_000);
      await delivery.flush();
      expect(operationsOf(receiver, tenant)).toEqual(['1 a', '2 b']);
    }
    expect(operationsOf(receiver, other)).toEqual(['1 x']);
    expect(errorsOf(delivery)).toHaveLength(3);
    expect(errorsOf(delivery)[0]).toMatchObject({
      message: 'the position of a sink was changed: its delivery stops',
      chains: 1,
    });
    await deliveries.acknowledge('default');
    await delivery.flush();
    expect(operationsOf(receiver, tenant)).toEqual(['1 a', '2 b', '1 a', '2 b', '3 c', '4 d']);
    expect(await delivery.states()).toMatchObject([{ changedPositions: 0, lagEntries: 0 }]);
  });

  test('notices that the log ends before the last delivered entry', async () => {
    const tenant = await data.tenant();
    for (const operation of ['a', 'b']) await writeEntries(data, tenant, operation);
    const delivery = start();
    await delivery.flush();
    expect(await delivery.states()).toMatchObject([{ truncatedChains: 0 }]);
    await data.runSql('delete from audit_segments where number = 2');
    await data.runSql('update audit_chains set number = 1');
    expect(await delivery.states()).toMatchObject([{ truncatedChains: 1 }]);
  });

  test('does not count entries as delivered that the receiver has rejected', async () => {
    const tenant = await data.tenant();
    const collector = openOtlpReceiver();
    collector.setAnswer(async (request) =>
      (await request.text()).includes('"sallyport.segment","value":{"intValue":"2"}')
        ? Response.json({ partialSuccess: { rejectedLogRecords: '1', errorMessage: 'too large' } })
        : undefined,
    );
    const delivery = start([openSink({ type: 'otlp', url: collector.url, allow_private: true })]);
    for (const operation of ['a', 'b', 'c']) await writeEntries(data, tenant, operation);
    await delivery.flush();
    expect(await delivery.states()).toMatchObject([
      {
        lagEntries: 0,
        failures: 0,
        rejectedChains: 1,
        lastError: 'the receiver rejected 1 of 1 entries: too large',
      },
    ]);
    expect(await delivery.deliveredUpTo(tenant)).toBe(1);
    await data.maintenance.sinks.deliveries.acknowledge('default');
    expect(await delivery.deliveredUpTo(tenant)).toBe(3);
    expect(await delivery.states()).toMatchObject([{ lagEntries: 0, rejectedChains: 0 }]);
  });
});

test('the delay doubles with each failure, up to 30 seconds, and follows the receiver up to five minutes', () => {
  const delays = [1, 2, 3, 5, 6, 1000].map((failures) => delayAfter(failures, undefined, () => 0));
  expect(delays).toEqual([1000, 2000, 4000, 16_000, 30_000, 30_000]);
  expect(delayAfter(3, undefined, () => 1)).toBe(2000);
  expect(delayAfter(1, new DeliveryError('', 30_000), () => 0)).toBe(30_000);
  expect(delayAfter(1, new DeliveryError('', 86_400_000), () => 0)).toBe(300_000);
});
