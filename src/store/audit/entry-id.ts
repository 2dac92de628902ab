/**
 * Ids of audit entries. An id is not stored. It is a UUIDv7 made from the time of the entry (48 bits), its position in
 * the chain (42 bits) and the end of the tenant's id (32 bits). So an id can be used as a cursor, and ids of different
 * tenants differ.
 */
import { systemTenant } from './hash-chain.ts';

/**
 * More than any chain reaches. Rows with a higher position are ignored: only another program can insert them. An id has
 * room for 2^42 positions, so a chain can continue after a row with this position.
 */
export const maxForeignSeq = 2 ** 40;
const maxTime = 2 ** 48 - 1;

/** The low 30 bits of the position are stored after the variant of the UUID, the other 12 after its version. */
const lowBits = 2 ** 30;

export function entryId(at: number, seq: number, tenantId: string): string {
  const time = hexadecimal(Math.min(Math.max(at, 0), maxTime), 12);
  const high = hexadecimal(Math.floor(seq / lowBits), 3);
  const low = hexadecimal(2 ** 31 + (seq % lowBits), 8);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${high}-${low.slice(0, 4)}-${low.slice(4)}${tenantId.slice(-8)}`;
}

export interface EntryPosition {
  readonly at: number;
  readonly seq: number;
}

/** Returns undefined if the UUID is not the id of an entry of this tenant. */
export function positionOf(id: string, tenantId = systemTenant): EntryPosition | undefined {
  const digits = id.replaceAll('-', '');
  const variant = Number.parseInt(digits[16] ?? '', 16);
  if (digits[12] !== '7' || variant < 8 || variant > 11 || !id.endsWith(tenantId.slice(-8))) return undefined;
  const high = Number.parseInt(digits.slice(13, 16), 16);
  const low = Number.parseInt(digits.slice(16, 24), 16) - 2 ** 31;
  return { at: Number.parseInt(digits.slice(0, 12), 16), seq: high * lowBits + low };
}

function hexadecimal(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}
