import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { pack, unpack } from '../../../src/store/audit/pack.ts';

const wellFormed = fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed());

test('any JSON is restored', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'grapheme' }), (value) => {
      const text = JSON.stringify(value);
      expect(unpack(pack(text))).toBe(text);
    }),
  );
});

const id = fc.constantFrom('0190a000-0000-7000-8000-000000000001', 'FFFFFFFF-0000-7000-8000-000000000001');
/** A fragment that packing recognizes, a part of such a fragment, or random text. */
const part = fc.oneof(
  fc.uuid(),
  id,
  fc.constantFrom('{"actor":{"kind":"session","id":"', '","', '"},"request_id":"', 'application', '.create'),
  fc.constantFrom('"', ',', '":', '-', '0', 'f', 'ü', '🔑', '\u007f', '\u0080'),
  wellFormed,
);

test('any other text is restored, also with control characters', () => {
  fc.assert(
    fc.property(fc.array(part, { maxLength: 20 }), (parts) => {
      const text = parts.join('');
      expect(unpack(pack(text))).toBe(text);
    }),
    { numRuns: 1000 },
  );
});

test('more UUIDs than can be repeated are restored', () => {
  const ids = Array.from({ length: 600 }, () => crypto.randomUUID());
  const text = JSON.stringify([...ids, ...ids]);
  expect(unpack(pack(text))).toBe(text);
});

test('arbitrary bytes do not throw', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => void unpack(bytes)));
});

test('a read of plaintext by a browser session has at most 170 bytes', () => {
  const [session, application, authorizer, request] = Array.from({ length: 4 }, () => crypto.randomUUID());
  const chrome =
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36';
  const entry = {
    actor: { kind: 'session', id: session, application_id: application, authorized_by: authorizer },
    from: { ip: '203.0.113.100', user_agent: chrome },
    request_id: request,
    operation: 'token.read',
    resource: { ids: ['card-4242'], container: '/pci/high/' },
    decision: {
      transform: 'reveal',
      rule: { of: 'session', rule: 1, description: 'The support desk may read cards' },
    },
    result: 'success',
  };
  expect(pack(JSON.stringify(entry)).length).toBeLessThanOrEqual(170);
});
