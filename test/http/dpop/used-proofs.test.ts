import { describe, expect, test } from 'bun:test';
import { nonceLifetime, ServerNonces, UsedProofs } from '../../../src/http/dpop/proofs.ts';

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
  test('a proof is accepted once, and a proof of another key with the same id is accepted, too', () => {
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

  test('a proof is refused in every millisecond around the expiry of its nonce, even if the request read the clock earlier', () => {
    const nonces = new ServerNonces(Buffer.alloc(32, 1));
    // The first, a middle and the last millisecond of the period in which the nonce was issued.
    for (const time of [start, start + 1, start + 500, start + 999]) {
      const nonce = nonces.issue(time);
      const end = time + nonceLifetime;
      expect([nonces.timeOf(nonce, end - 1), nonces.timeOf(nonce, end)]).toEqual([time, undefined]);
      for (let later = end - 1001; later <= end + 1001; later++) {
        const used = new UsedProofs();
        used.use(proof(1), '', time, time);
        // A request at `later` drops expired proofs. The replay below has read the clock before that request.
        expect(used.use(proof('other'), '', later, later)).toBe('first');
        for (const now of [end - 1, end - 1001, time])
          expect(used.use(proof(1), '', time, now)).not.toBe('first');
      }
    }
  });

  test('memory for proofs of expired nonces is freed', () => {
    const used = new UsedProofs(2);
    for (const jti of [1, 2]) used.use(proof(jti), '', start + 999, start + 999);
    const now = start + 1000 + nonceLifetime;
    expect(used.use(proof(3), '', now, now)).toBe('first');
    // With three proofs in memory, those of this second would be dropped, and its nonces refused.
    expect(used.accepts(now, now)).toBe(true);
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

  test('a late request does not make dropped proofs acceptable again', () => {
    const used = new UsedProofs(1);
    const now = start + 60_000;
    used.use(proof(1), '', start, start);
    used.use(proof(2), '', now, now);
    used.use(proof(3), '', now, now);
    for (const late of [now, start + 1, start]) {
      used.use(proof('late'), '', start, late);
      expect(used.use(proof(2), '', now, now)).toBe('nonce_too_old');
    }
  });

  test('a clock that is set back by up to the lifetime of a nonce accepts no proof again', () => {
    for (const back of [1, 1000, nonceLifetime - 1, nonceLifetime]) {
      const used = new UsedProofs();
      const proofs = Array.from({ length: 300 }, (_, at) => start + at * 1000);
      for (const time of proofs) used.use(proof(time), '', time, time);
      const now = start + 299_000 - back;
      expect(used.use(proof('new'), '', now, now)).toBe('first');
      for (const time of proofs) expect(used.use(proof(time), '', time, now)).not.toBe('first');
    }
  });

  test('a clock that is set back refuses new nonces for at most the lifetime of a nonce', () => {
    for (const back of [1000, nonceLifetime, 2 * nonceLifetime, 3 * nonceLifetime, 3_600_000]) {
      const used = new UsedProofs(10);
      for (let at = 0; at < 300; at++) used.use(proof(at), '', start + at * 1000, start + at * 1000);
      const now = start + 299_000 - back;
      used.accepts(now, now);
      const later = now + nonceLifetime;
      expect(used.use(proof('new'), '', later, later)).toBe('first');
    }
  });
});
