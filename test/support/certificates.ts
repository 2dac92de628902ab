/** Creates certificates for PostgreSQL servers and clients with openssl. */
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { serverUser } from './postgres.ts';
import { isMissing } from './skip.ts';

export const noOpenssl = isMissing(Bun.which('openssl') !== null, 'TLS tests: no openssl found');

export interface Certificates {
  /** The certificate authority that signed the others. */
  readonly authority: string;
  /** For `localhost` and the other names. */
  readonly server: KeyPair;
  readonly client: KeyPair;
}

interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** Writes PEM files to the folder. The client certificate is for the role `client`. `names` are such as `,IP:127.0.0.1`. */
export function createCertificates(folder: string, client: string, names = ''): Certificates {
  const file = (name: string) => join(folder, name);
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

  function openssl(...args: string[]): void {
    const { status, stderr } = spawnSync('openssl', args, { cwd: folder, encoding: 'utf8' });
    if (status !== 0) throw new Error(`openssl failed: ${stderr}`);
  }

  function sign(name: string, subject: string, others = ''): KeyPair {
    const pair = { certificate: file(`${name}.crt`), key: file(`${name}.key`) };
    openssl('req', ...newKey, '-keyout', pair.key, '-out', file('request'), '-subj', `/CN=${subject}`);
    const authority = ['-CA', file('ca.crt'), '-CAkey', file('ca.key'), '-CAcreateserial'];
    const extensions = ['-extfile', file('names')];
    writeFileSync(file('names'), `subjectAltName=DNS:${subject}${others}\n`);
    openssl('x509', '-req', '-in', file('request'), ...authority, ...extensions, '-out', pair.certificate);
    return pair;
  }

  openssl('req', '-x509', ...newKey, '-keyout', file('ca.key'), '-out', file('ca.crt'), '-subj', '/CN=ca');
  const server = sign('server', 'localhost', names);
  // PostgreSQL rejects a key that other users can read.
  chmodSync(server.key, 0o600);
  if (serverUser.uid) chownSync(server.key, serverUser.uid, serverUser.gid);
  return { authority: file('ca.crt'), server, client: sign('client', client) };
}
