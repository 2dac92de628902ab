import { describe, expect, test } from 'bun:test';
import { nonceLifetime, ServerNonces } from '../../../src/http/dpop/nonces.ts';
import { UsedProofs } from '../../../src/http/dpop/used-proofs.ts';

const start = 1_800_000_000_000;
const proof = (jti: string | number) => ({ jkt: 'key', jti: String(jti) });

describe('server nonces', () => {
  const nonces = new ServerNonces(Buffer.alloc(32, 1));
  const nonce = nonces.issue(start);

  test('are accepted for their lifetime by every node with the same secret', () => {
    const other = new ServerNonces(Buffer.alloc(32, 1));
    expect(other.timeOf(nonce, start)).toBe(start);
    expect(other.timeOf(nonce, start + nonceLifetime - 1)).toBe(start);
    expect(other.timeOf(nonce, start + nonceLifetime)).toBeUndefined();
  });

  test('of another secret, changed ones and other texts are rejected', () => {
    expect(new ServerNonces(Buffer.alloc(32, 2)).timeOf(nonce, start)).toBeUndefined();
    const bytes = Buffer.from(nonce, 'base64url');
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] as number) ^ 1;
      expect(nonces.timeOf(changed.toString('base64url'), start)).toBeUndefined();
    }
    for (const text of ['', 'x', `${nonce}AAAA`]) expect(nonces.timeOf(text, start)).toBeUndefined();
  });
});

describe('used proofs', () => {
  test('a proof is accepted once, and one of another key with the same id is another proof', () => {
    const used = new UsedProofs();
    expect(used.use(proof(1), '', start, start)).toBe('first');
    expect(used.use(proof(1), '', start, start)).toBe('replay');
    expect(used.use({ jkt: 'other', jti: '1' }, '', start, start)).toBe('first');
  });

  test('a proof is accepted again only for the same purpose', () => {
    const used = new UsedProofs();
    const uses = ['a', 'a', 'b', ''].map((purpose) => used.use(proof(1), purpose, start, start));
    expect(uses).toEqual(['first', 'first', 'replay', 'replay']);
  });

  test('nonces that were issued before the first use by this process are refused', () => {
    const used = new UsedProofs();
    expect(used.accepts(start, start + 1)).toBe(false);
    expect(used.accepts(start + 1, start + 1)).toBe(true);
  });

  test('a proof is remembered as long as its nonce is accepted', () => {
    const used = new UsedProofs();
    const nonces = new ServerNonces(Buffer.alloc(32, 1));
    const nonce = nonces.issue(start);
    used.use(proof(1), '', start, start);
    for (let now = start; nonces.timeOf(nonce, now) !== undefined; now += 500) {
      used.use(proof(`other ${now}`), '', now, now);
      expect(used.use(proof(1), '', start, now)).toBe('replay');
    }
  });

  test('too many proofs never make an earlier one acceptable again', () => {
    const used = new UsedProofs(100);
    const accepted: [number, number][] = [];
    for (let count = 0; count < 1000; count++) {
      const now = start + count * 20;
      expect(used.use(proof(count), '', now, now)).toBe('first');
      accepted.push([count, now]);
    }
    const now = start + 1000 * 20;
    const again = accepted.map(([id, time]) => used.use(proof(id), '', time, now));
    expect(again).not.toContain('first');
    expect(again).toContain('replay');
    expect(again).toContain('nonce_too_old');
    expect(used.use(proof('new'), '', now, now)).toBe('first');
  });

  test('a clock that is set back does not lock clients out', () => {
    const used = new UsedProofs();
    used.use(proof(1), '', start, start);
    const earlier = start - 3_600_000;
    expect(used.use(proof(2), '', earlier, earlier)).toBe('first');
  });
});
