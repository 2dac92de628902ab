/** Searches bytes for secrets: plain, hexadecimal, base64 at any alignment, and UTF-16. */
import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { plaintextMark, type Secrets } from './secrets.ts';

export interface Found {
  readonly secret: string;
  readonly where: string;
  readonly form: string;
}

interface Needle {
  readonly form: string;
  readonly bytes: Buffer;
  /** Decodes the bytes from the match on. */
  read(window: Buffer): string;
}

/** Longer than any encoded secret. */
const maxSecretLength = 1024;
const chunkSize = 32 * 1024 * 1024;

/** Every secret starts with one of these. */
const marks = ['slp_', plaintextMark];
const needles = marks.flatMap(needlesOf);

function needlesOf(mark: string): Needle[] {
  const ascii = (window: Buffer) => window.toString('latin1');
  const hex = (window: Buffer) =>
    Buffer.from(ascii(window).replace(/[^0-9a-fA-F].*$/s, ''), 'hex').toString('latin1');
  const hexMark = Buffer.from(mark).toString('hex');
  return [
    { form: 'plain', bytes: Buffer.from(mark), read: ascii },
    { form: 'hexadecimal', bytes: Buffer.from(hexMark), read: hex },
    { form: 'HEXADECIMAL', bytes: Buffer.from(hexMark.toUpperCase()), read: hex },
    {
      form: 'UTF-16',
      bytes: Buffer.from(mark, 'utf16le'),
      read: (window: Buffer) => window.toString('utf16le'),
    },
    ...[0, 1, 2].map((shift) => base64Needle(mark, shift)),
  ].filter(({ bytes }, at, all) => all.findIndex((other) => other.bytes.equals(bytes)) === at);
}

/** Base64 encodes three bytes as four characters, so the encoded prefix depends on its alignment. */
function base64Needle(mark: string, shift: number): Needle {
  const lead = [0, 2, 3][shift] as number;
  const text = Buffer.from('\0'.repeat(shift) + mark)
    .toString('base64')
    .replaceAll('=', '');
  const whole = Math.floor(((shift + mark.length) * 8) / 6);
  return {
    form: `base64, ${shift} bytes in`,
    bytes: Buffer.from(text.slice(lead, whole)),
    read: (window) => {
      const known = text.slice(0, lead) + window.toString('latin1').replace(/[^A-Za-z0-9+/_-].*$/s, '');
      return Buffer.from(known, 'base64').toString('latin1').slice(shift);
    },
  };
}

const secretPattern = new RegExp(`^(slp_[a-z]{3}_[0-9A-Za-z]{55}|${plaintextMark}[^~]*~[0-9a-f-]{36})`);

/** All secrets of the run in the bytes. */
export function searchBytes(bytes: Buffer, where: string, { all }: Secrets): Found[] {
  const found: Found[] = [];
  for (const { form, bytes: needle, read } of needles) {
    for (let at = bytes.indexOf(needle); at >= 0; at = bytes.indexOf(needle, at + 1)) {
      const secret = secretPattern.exec(read(bytes.subarray(at, at + maxSecretLength)))?.[0];
      if (secret !== undefined && all.has(secret)) found.push({ secret, where, form });
    }
  }
  return found;
}

export interface Searched {
  readonly bytes: number;
  readonly files: number;
  readonly found: readonly Found[];
}

/** Searches every file below the folder, except key files. */
export function searchFolder(folder: string, secrets: Secrets, pick: (path: string) => boolean): Searched {
  const all = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => !path.endsWith('.key') && pick(path));
  const parts = all.flatMap((path) => {
    const file = openFile(path);
    return file === undefined ? [] : searchFile(file, path, secrets);
  });
  return {
    files: parts.length,
    bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0),
    found: parts.flatMap(({ found }) => found),
  };
}

/** A running database may delete a file during the search; skip it. */
function openFile(path: string): number | undefined {
  try {
    return statSync(path).isFile() ? openSync(path, 'r') : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function searchFile(file: number, path: string, secrets: Secrets): { bytes: number; found: Found[] } {
  try {
    const buffer = Buffer.allocUnsafe(Math.min(chunkSize, fstatSync(file).size) + maxSecretLength);
    const found: Found[] = [];
    let bytes = 0;
    let kept = 0;
    for (;;) {
      const read = readSync(file, buffer, kept, buffer.length - kept, null);
      if (read === 0) return { bytes, found };
      bytes += read;
      const there = kept + read;
      found.push(...searchBytes(buffer.subarray(0, there), path, secrets));
      kept = Math.min(maxSecretLength, there);
      buffer.copyWithin(0, there - kept, there);
    }
  } finally {
    closeSync(file);
  }
}

/** A secret in every encoding that must be found, each inside other bytes. */
export function everyEncoding(secret: string): Buffer[] {
  const base64 = [0, 1, 2].map((shift) => Buffer.from(`${'\0'.repeat(shift)}${secret}`).toString('base64'));
  const hex = Buffer.from(secret).toString('hex');
  const texts = [secret, hex, hex.toUpperCase(), ...base64].map((text) => Buffer.from(`\0 ${text}" `));
  return [...texts, Buffer.from(secret, 'utf16le')];
}
