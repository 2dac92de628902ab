import { describe, expect, test } from 'bun:test';
import {
  endsWithApplication,
  latestExpiry,
  newExpiry,
  requireWithinApplication,
  requireWithinLifetime,
} from '../../src/domain/lifetime.ts';

const now = Date.parse('2030-01-01T00:00:00Z');
const hour = 3_600_000;
const unlimited = { now };
const limited = { now, maxLifetime: hour };
const end = now + hour;

const invalid = (message: string) =>
  expect.objectContaining({ code: 'validation_failed', errors: { expires_at: [message] } });
const passed = 'must be in the future';
const tooLate = 'must be at most 2030-01-01T01:00:00.000Z, because the tenant has a maximum lifetime';

test('a new key expires at the latest after the maximum lifetime, or never', () => {
  expect(latestExpiry(limited)).toBe(end);
  expect(latestExpiry({ now, maxLifetime: 0 })).toBe(now);
  expect(latestExpiry(unlimited)).toBeUndefined();
});

describe('the expiry of a new key', () => {
  test.each([
    ['is the latest one, if absent', undefined, limited, end],
    ['stays absent without a maximum lifetime', undefined, unlimited, undefined],
    ['can be one millisecond after the request', now + 1, limited, now + 1],
    ['can be the latest one', end, limited, end],
    ['can be later without a maximum lifetime', end + 1, unlimited, end + 1],
  ])('%s', (_, given, caller, expiry) => {
    expect(newExpiry(given, caller)).toBe(expiry);
  });

  test.each([
    ['the time of the request', now, limited, passed],
    ['in the past without a maximum lifetime', now - 1, unlimited, passed],
    ['later than the maximum lifetime', end + 1, limited, tooLate],
  ])('cannot be %s', (_, given, caller, message) => {
    expect(() => newExpiry(given, caller)).toThrow(invalid(message));
  });
});

test('a changed expiry is limited by the maximum lifetime of the tenant, if it has one', () => {
  expect(requireWithinLifetime(end, limited)).toBeUndefined();
  expect(requireWithinLifetime(end + 1, unlimited)).toBeUndefined();
  expect(() => requireWithinLifetime(end + 1, limited)).toThrow(invalid(tooLate));
});

describe('a key', () => {
  const applicationEnd = '2030-01-01T01:00:00.000Z';

  test.each([
    ['before its application', end - 1, applicationEnd],
    ['at the same time as its application', end, applicationEnd],
    ['if its application does not', end, undefined],
  ])('may expire %s', (_, expiresAt, applicationExpiry) => {
    expect(endsWithApplication(expiresAt, applicationExpiry)).toBe(false);
    expect(requireWithinApplication(expiresAt, applicationExpiry)).toBeUndefined();
  });

  test('that would expire after its application is rejected, and ends with it if it exists', () => {
    expect(endsWithApplication(end + 1, applicationEnd)).toBe(true);
    expect(() => requireWithinApplication(end + 1, applicationEnd)).toThrow(
      invalid(
        'must be at most 2030-01-01T01:00:00.000Z, when the application expires: change the expiry of the application first',
      ),
    );
  });

  test('without an expiry is accepted in an application that expires', () => {
    expect(requireWithinApplication(undefined, applicationEnd)).toBeUndefined();
  });
});
