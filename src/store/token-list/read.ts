/** Reads and decrypts the tokens of a page. */
import type { Transform } from '../../domain/rule.ts';
import { nextTurn } from '../../domain/steps.ts';
import { notExpired } from '../applications.ts';
import type { Queries } from '../engine/db.ts';
import { Params } from '../engine/sql.ts';
import type { ListedToken, TokenQuery } from '../store.ts';
import { columns, decryptPart, type Part, type TokenRow, viewOf, withContents } from '../token-row.ts';
import type { VisibleToken } from './scan.ts';

const maxPageBytes = 8 * 1024 * 1024;
/** An upper bound for the size of a token without data, mask and metadata. */
const fixedBytes = 1024;

/** As many tokens as fit into a page, and at least one. */
export function withinBytes(shown: readonly VisibleToken[]): readonly VisibleToken[] {
  let bytes = 0;
  const end = shown.findIndex(({ transform, data, masked, rest }, at) => {
    bytes += fixedBytes + Number(rest);
    if (transform !== 'redact') bytes += Number(transform === 'reveal' ? data : masked);
    return bytes > maxPageBytes && at > 0;
  });
  return end < 0 ? shown : shown.slice(0, end);
}

/** Reading and decrypting this many bytes takes a few milliseconds. Other requests are handled in between. */
const batchBytes = 1024 * 1024;

/** Splits tokens into batches by the size of what is read of them. A token of unknown size has its own batch. */
function batchesOf(found: Parameters<typeof readTokens>[3]): { seqs: string[]; bytes: number }[] {
  const batches: { seqs: string[]; bytes: number }[] = [];
  for (const { seq, transform, data, masked } of found) {
    const bytes = transform === 'redact' ? 0 : Number((transform === 'reveal' ? data : masked) ?? batchBytes);
    const last = batches.at(-1);
    if (last && last.bytes + bytes <= batchBytes) {
      last.seqs.push(seq);
      last.bytes += bytes;
    } else batches.push({ seqs: [seq], bytes });
  }
  return batches;
}

/** Each transform reads only the ciphertext that it shows. */
const selections: Record<Transform, { sql: string; part?: Part }> = {
  reveal: { sql: `select ${columns}, c.data as ciphertext from ${withContents}`, part: 'data' },
  mask: { sql: `select ${columns}, c.masked as ciphertext from ${withContents}`, part: 'masked' },
  redact: { sql: `select ${columns}, null as ciphertext from tokens t` },
};

/** Reads the tokens that were found. If a token has changed since, its transform is determined again. */
export async function readTokens(
  db: Queries,
  tenant: string,
  key: Uint8Array,
  found: readonly (Pick<VisibleToken, 'seq' | 'transform'> & Partial<VisibleToken>)[],
  show: TokenQuery['transformFor'],
  attempts = 3,
): Promise<ListedToken[]> {
  const tokens: ListedToken[] = [];
  const changed: Pick<VisibleToken, 'seq' | 'transform'>[] = [];
  for (const [transform, some] of Map.groupBy(found, (one) => one.transform)) {
    const { sql, part } = selections[transform];
    for (const { seqs, bytes } of batchesOf(some)) {
      if (tokens.length > 0 || bytes > batchBytes / 8) await nextTurn();
      const params = new Params();
      const where = `t.tenant_id = ${params.add(tenant)} and t.seq in ${params.list(seqs)} and ${notExpired('t')}`;
      const rows = await db.all<TokenRow & { ciphertext: Uint8Array | null }>(
        `${sql} where ${where}`,
        params.values,
      );
      for (const row of rows) {
        const now = show(row);
        if (now === transform) {
          const data = part && decryptPart(key, row, part, row.ciphertext);
          tokens.push({ seq: row.seq, token: viewOf(row), data, transform });
        } else if (now !== undefined) changed.push({ seq: row.seq, transform: now });
      }
    }
  }
  if (changed.length > 0 && attempts > 1)
    tokens.push(...(await readTokens(db, tenant, key, changed, show, attempts - 1)));
  return tokens.sort((a, b) => (a.seq < b.seq ? 1 : -1));
}
