import { describe, expect, test } from 'bun:test';
import { type ApplicationType, accessErrors } from '../../src/domain/application.ts';
import { Origins, originOf } from '../../src/domain/common-fields.ts';

const errorsOfSettings = (type: ApplicationType, sent: object) =>
  accessErrors(type, { permissions: ['decision:create'], rules: [], ...sent });

describe('an origin', () => {
  test.each([
    ['https://shop.example', 'https://shop.example'],
    ['HTTPS://Shop.Example:443', 'https://shop.example'],
    ['http://localhost:3000', 'http://localhost:3000'],
    ['https://bücher.example', 'https://xn--bcher-kva.example'],
    ['http://[2001:DB8:0::1]:8080', 'http://[2001:db8::1]:8080'],
    ['capacitor://localhost', 'capacitor://localhost'],
    ['chrome-extension://ABCdef', 'chrome-extension://abcdef'],
    ['my.app+x-2://Home:80', 'my.app+x-2://home:80'],
  ])('%s is normalized to %s', (text, origin) => {
    expect(originOf(text)).toBe(origin);
  });

  test.each([
    'https://shop.example/',
    'https://shop.example/path',
    'https://shop.example?x',
    'https://shop.example#x',
    'https://*.shop.example',
    'https://me@shop.example',
    'https://shop.example:99999',
    'https://shop.example\\x',
    'https://shop example',
    'https://shop.example;connect-src',
    'https://shop.example%3Bconnect-src',
    "https://shop.example'",
    'https://shop.example%22',
    'https://shop.example,https://evil.example',
    'https://shop.example%2Chttps',
    ' https://shop.example',
    'https://shop.example\n',
    '1https://shop.example',
    'shop.example',
    'https://',
    '//shop.example',
    'null',
    '*',
    '',
  ])('cannot be %j', (text) => {
    expect(originOf(text)).toBeUndefined();
  });
});

describe('allowed origins', () => {
  const errorsOf = (origins: unknown) =>
    Origins.safeParse(origins).error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);

  test('are normalized and deduplicated', () => {
    const given = ['HTTPS://Shop.Example', 'http://localhost:3000', 'https://shop.example:443'];
    expect(Origins.parse(given)).toEqual(['https://shop.example', 'http://localhost:3000']);
  });

  test('are rejected one by one if they are invalid', () => {
    expect(errorsOf(['https://shop.example', 'https://shop.example/path', '*'])).toEqual(
      [1, 2].map(
        (at) =>
          `${at}: must be an origin such as https://shop.example or http://localhost:3000, without a path`,
      ),
    );
  });

  test('have at most 300 characters and 20 items', () => {
    const long = `https://x:${'0'.repeat(290)}`;
    const many = Array.from({ length: 21 }, (_, port) => `http://localhost:${4000 + port}`);
    expect(long).toHaveLength(300);
    expect(errorsOf([long])).toBeUndefined();
    expect(errorsOf([`${long}0`])).toHaveLength(1);
    expect(errorsOf(many.slice(1))).toBeUndefined();
    expect(errorsOf(many)).toHaveLength(1);
  });

  test('are only for public applications', () => {
    const origins = ['https://shop.example'];
    expect(errorsOfSettings('public', { allowed_origins: origins })).toEqual({});
    for (const type of ['private', 'management'] as const) {
      expect(errorsOfSettings(type, {})).toEqual({});
      expect(errorsOfSettings(type, { allowed_origins: [] })).toEqual({});
      expect(errorsOfSettings(type, { allowed_origins: origins })).toEqual({
        allowed_origins: [
          `is only for public applications: the key of a ${type} application must not be used in a browser`,
        ],
      });
    }
  });
});

test('only public applications can require bound sessions', () => {
  expect(errorsOfSettings('public', { require_bound_sessions: true })).toEqual({});
  for (const type of ['private', 'management'] as const) {
    expect(errorsOfSettings(type, { require_bound_sessions: false })).toEqual({});
    expect(errorsOfSettings(type, { require_bound_sessions: true })).toEqual({
      require_bound_sessions: [
        `is only for public applications: a ${type} application cannot create sessions`,
      ],
    });
  }
});
