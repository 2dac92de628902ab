/** The last uses of a destination in the console: which outcome belongs to which use, and what is shown. */
import { expect, test } from 'bun:test';
import { outcomeText, withOutcomes } from '../../console/src/destinations/uses.tsx';
import type { LogEntry } from '../../sdk/src/sallyport.ts';

const entry = (milliseconds: number, request_id: string, more: object = {}) =>
  ({
    at: new Date(Date.parse('2026-11-15T12:00:00.000Z') + milliseconds).toISOString(),
    request_id,
    actor: { kind: 'application', id: 'shop' },
    result: 'success',
    use: { path: '/v1/charges' },
    ...more,
  }) as LogEntry;
const outcome = (milliseconds: number, request_id: string, status?: number, more: object = {}) =>
  entry(milliseconds, request_id, { use: { path: '/v1/charges', status }, ...more });
const other = { actor: { kind: 'application', id: 'other' } };

test.each([
  ['a reply', [entry(0, 'a')], [outcome(132, 'a', 200)], ['200 in 132 ms']],
  [
    'a reply that was withheld',
    [entry(0, 'a')],
    [outcome(9, 'a', 200, { reason: 'destination_echoed_data' })],
    ['200, destination_echoed_data in 9 ms'],
  ],
  [
    'no reply',
    [entry(0, 'a')],
    [outcome(25_000, 'a', undefined, { reason: 'destination_timeout' })],
    ['no reply, destination_timeout in 25,000 ms'],
  ],
  [
    'a denial',
    [entry(0, 'a', { result: 'denied', reason: 'permission_missing' })],
    [],
    ['not sent: permission_missing'],
  ],
  ['a request that is not finished', [entry(0, 'a')], [], ['no outcome recorded']],
  [
    'a request id that is used twice',
    [entry(10, 'a'), entry(0, 'a')],
    [outcome(17, 'a', 402), outcome(5, 'a', 200)],
    ['402 in 7 ms', '200 in 5 ms'],
  ],
  [
    'the request id of another caller',
    [entry(0, 'a')],
    [outcome(5, 'a', 200, other)],
    ['no outcome recorded'],
  ],
  ['an outcome of an earlier use', [entry(10, 'a')], [outcome(5, 'a', 200)], ['no outcome recorded']],
])('%s', (_, uses, outcomes, texts) => {
  const pairs = withOutcomes(uses, outcomes);
  expect(pairs.map((pair) => pair.entry)).toEqual(uses);
  expect(pairs.map((pair) => outcomeText(pair.entry, pair.outcome))).toEqual(texts);
});
