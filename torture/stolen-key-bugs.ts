/** Bugs that would help the thief of a key. */
import type { Bug } from './bug.ts';

export const stolenKeyBugs: readonly Bug[] = [
  {
    name: 'replayed proofs accepted',
    row: 'stolen-sessions',
    database: 'SQLite',
    changes: [
      {
        file: 'src/http/dpop/proofs.ts',
        from: "    if (use === 'replay') throw new ProofError('was used before');\n",
        to: '',
      },
    ],
  },
  {
    name: 'proofs for any URL accepted',
    row: 'stolen-sessions',
    database: 'SQLite',
    changes: [
      {
        file: 'src/http/dpop/proof.ts',
        from: "  if (!sameUrl(htu, request.url)) throw new ProofError('is for another URL');\n",
        to: "  if (!sameUrl(htu, htu)) throw new ProofError('is for another URL');\n",
      },
    ],
  },
  {
    name: 'first address of X-Forwarded-For used',
    row: 'networks',
    database: 'SQLite',
    changes: [
      {
        file: 'src/http/pipeline/client-address.ts',
        from: '    if (!trusts(address)) break;\n',
        to: '',
      },
    ],
  },
  {
    name: 'contradicting proxy headers accepted',
    row: 'networks',
    database: 'SQLite',
    changes: [
      {
        file: 'src/http/pipeline/client-address.ts',
        from: '  if (first.address !== second.address) return { address: peer, isCertain: false };\n',
        to: '',
      },
    ],
  },
  {
    name: 'response before a leaked key is revoked',
    row: 'leaked-keys',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/http/endpoints/leaked-keys.ts',
        from: '    await Promise.all([\n      store.revokeKey(',
        to: '    void Promise.all([\n      store.revokeKey(',
      },
    ],
  },
  {
    name: 'sessions of a leaked key not ended',
    row: 'leaked-keys',
    database: 'SQLite',
    changes: [
      {
        file: 'src/store/keys.ts',
        from: '        await endUnlimitedSessions(tx, tenant, digest);\n',
        to: '',
      },
    ],
  },
];
