/**
 * The MAC of a backup, with a key derived from the master key. It is one line of text after the last page of the file,
 * which SQLite ignores, so a backup is still one file that any SQLite can open. Files are read in chunks.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import { fstatSync, fsyncSync, readSync, writeSync } from 'node:fs';
import { timestamp } from '../../domain/common-fields.ts';
import type { MasterKey } from './cipher.ts';

export interface BackupMac {
  readonly taken_at: string;
  /** The id of the master key. */
  readonly master_key: string;
  readonly mac: string;
  /** The size of the database, which precedes the MAC. */
  readonly length: number;
}

const pattern = /^\nsallyport-backup 1 (\S{24}) ([0-9a-f]{16}) ([0-9a-f]{64})\n$/;
const lineLength = 127;
const chunk = 1024 * 1024;

/** Appends the MAC to a database file that is open for reading and writing, and flushes the file to disk. */
export function appendMac(file: number, master: MasterKey, at: number): BackupMac {
  const length = fstatSync(file).size;
  const taken_at = timestamp(at);
  const hmac = startMac(master, taken_at);
  eachChunk(file, length, (bytes) => hmac.update(bytes));
  const mac = hmac.digest('hex');
  writeAll(file, Buffer.from(`\nsallyport-backup 1 ${taken_at} ${master.id} ${mac}\n`), length);
  fsyncSync(file);
  return { taken_at, master_key: master.id, mac, length };
}

/** Reads the MAC without checking it. Returns undefined if the file has none. */
export function readMac(file: number): BackupMac | undefined {
  const length = fstatSync(file).size - lineLength;
  if (length <= 0) return undefined;
  const line = Buffer.alloc(lineLength);
  readSync(file, line, 0, lineLength, length);
  const [, taken_at, master_key, mac] = pattern.exec(line.toString('latin1')) ?? [];
  if (taken_at === undefined || master_key === undefined || mac === undefined) return undefined;
  return { taken_at, master_key, mac, length };
}

/** Copies the database without its MAC. Returns whether the MAC matches. */
export function copyChecked(from: number, to: number, found: BackupMac, master: MasterKey): boolean {
  const hmac = startMac(master, found.taken_at);
  eachChunk(from, found.length, (bytes) => {
    hmac.update(bytes);
    writeAll(to, bytes);
  });
  return timingSafeEqual(hmac.digest(), Buffer.from(found.mac, 'hex'));
}

/** Copies the first `length` bytes of a file. */
export function copyBytes(from: number, to: number, length: number): void {
  eachChunk(from, length, (bytes) => writeAll(to, bytes));
}

/** On a full disk, a write may succeed in part. The next one then fails with the reason. */
function writeAll(file: number, bytes: Uint8Array, position?: number): void {
  for (let done = 0; done < bytes.length; )
    done += writeSync(
      file,
      bytes,
      done,
      bytes.length - done,
      position === undefined ? null : position + done,
    );
}

function startMac({ bytes, id }: MasterKey, takenAt: string) {
  const key = Buffer.from(hkdfSync('sha256', bytes, '', 'sallyport backup mac', 32));
  return createHmac('sha256', key).update(`sallyport backup 1 ${takenAt} ${id}\n`);
}

function eachChunk(file: number, length: number, use: (bytes: Buffer) => void): void {
  const buffer = Buffer.allocUnsafe(Math.min(chunk, Math.max(length, 1)));
  for (let at = 0; at < length; ) {
    const read = readSync(file, buffer, 0, Math.min(buffer.length, length - at), at);
    if (read === 0) throw new Error('the file was truncated while it was read');
    use(buffer.subarray(0, read));
    at += read;
  }
}
