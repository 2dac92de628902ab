/** docs/reference/asvs.md has every requirement of OWASP ASVS 5.0 once, with the counts that its summary states. */
import { expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

/** The level of each requirement of a section, in order: `1.4:222` are 1.4.1 to 1.4.3. */
const sections = `
  1.1:22 1.2:1111122223 1.3:112222222223 1.4:222 1.5:123 2.1:122 2.2:112 2.3:12223 2.4:23 3.1:3 3.2:113
  3.3:12223 3.4:11222233 3.5:11122333 3.6:3 3.7:22333 4.1:12233 4.2:23333 4.3:22 4.4:1222 5.1:2 5.2:112333
  5.3:113 5.4:222 6.1:122 6.2:111111112222 6.3:11223333 6.4:112233 6.5:22222333 6.6:2223 6.7:33 6.8:2222
  7.1:222 7.2:1111 7.3:22 7.4:11222 7.5:223 7.6:22 8.1:1233 8.2:1123 8.3:133 8.4:23 9.1:111 9.2:1222 10.1:22
  10.2:223 10.3:22223 10.4:1111122222233333 10.5:22222 10.6:22 10.7:222 11.1:2233 11.2:22233 11.3:11233
  11.4:1222 11.5:23 11.6:23 11.7:33 12.1:12233 12.2:11 12.3:22223 13.1:2333 13.2:222223 13.3:2233
  13.4:1222233 14.1:22 14.2:12223333 14.3:122 15.1:12233 15.2:12233 15.3:1222222 15.4:3333 16.1:2 16.2:22222
  16.3:2222 16.4:222 16.5:2223 17.1:23 17.2:22223333 17.3:22`;
const requirements = sections
  .trim()
  .split(/\s+/)
  .flatMap((section) => {
    const [name, levels = ''] = section.split(':');
    return [...levels].map((level, at) => [`${name}.${at + 1}`, level] as const);
  });

const page = readFileSync(join(root, 'docs/reference/asvs.md'), 'utf8');
const lines = page.split('\n');
const cellsOf = (line: string) => line.split('|').map((cell) => cell.trim());
const rows = lines
  .filter((line) => /^\| \d+\.\d+\.\d+ /.test(line))
  .map((line) => {
    const [, number = '', level = '', subject = '', verdict = '', reason = ''] = cellsOf(line);
    return { number, level, subject, verdict, reason };
  });
const verdicts = ['met', 'by design', 'operator', 'not applicable', 'not met'];

test('the page has all 345 requirements once, in order, with their level', () => {
  expect(requirements).toHaveLength(345);
  expect(rows.map(({ number, level }) => `${number} ${level}`)).toEqual(
    requirements.map((each) => each.join(' ')),
  );
});

test('a requirement that is met names a test or a page, and the others have a reason', () => {
  const unheld = rows.filter(({ verdict, subject, reason }) =>
    verdict === 'met'
      ? !/`(test|torture)\/|\]\([\w./#-]+\)/.test(reason)
      : !verdicts.includes(verdict) || subject === '' || reason === '',
  );
  expect(unheld).toEqual([]);
});

test('the summary counts the verdicts, and lists what is not met on levels 1 and 2', () => {
  const count = (isCounted: (row: (typeof rows)[number]) => boolean) => rows.filter(isCounted).length;
  for (const level of ['1', '2', '3', 'all']) {
    const isIn = (row: { level: string }) => level === 'all' || row.level === level;
    const counts = verdicts.map((verdict) => count((row) => isIn(row) && row.verdict === verdict));
    expect(lines).toContain(`| ${[level, count(isIn), ...counts].join(' | ')} |`);
  }
  const listed = lines
    .filter((line) => line.startsWith('- '))
    .flatMap((line) => line.match(/(?<=\*\*)[\d.]+(?=\*\*)/g) ?? []);
  const open = rows.filter(({ verdict, level }) => verdict === 'not met' && level !== '3');
  expect(listed.sort()).toEqual(open.map(({ number }) => number).sort());
});

test('the source uses only these algorithms for hashes, ciphers and generated keys', () => {
  const call =
    /\b(create(?:Hash|Hmac|Cipher\w*|Decipher\w*|Sign|Verify)|hkdf\w*|generateKeyPair\w*|CryptoHasher|MD5|SHA\w*|pbkdf2\w*|scrypt\w*|subtle\.\w+)(?:\.\w+)?\(\s*(?:'([^']*)'|\w+)/g;
  const used = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .flatMap((path) =>
      Array.from(readFileSync(join(root, 'src', path), 'utf8').matchAll(call), ([, name, given]) => {
        const algorithm = given ?? `in ${path}`;
        return given === 'md5' ? `${name} md5 in ${path}` : `${name} ${algorithm}`;
      }),
    );
  expect([...new Set(used)].sort()).toEqual([
    'CryptoHasher sha256',
    'SHA256 in domain/key.ts',
    'createCipheriv in db/keys/cipher.ts',
    'createDecipheriv in db/keys/cipher.ts',
    // A checksum that S3 asks for.
    'createHash md5 in audit/delivery/config.ts',
    'createHash sha256',
    'createHmac sha256',
    'generateKeyPairSync ed25519',
    'hkdfSync sha256',
  ]);
  const cipher = readFileSync(join(root, 'src/db/keys/cipher.ts'), 'utf8');
  expect(cipher.match(/'aes-[\w-]+'|'des[\w-]*'/g)).toEqual(["'aes-256-gcm'"]);
});
