/** Checks the audit log for `doctor`. */
import {
  type ChainKeys,
  checkpointText,
  expectedMac,
  isKnownFormat,
  signatureCheck,
  systemTenant,
} from '../store/audit/hash-chain.ts';
import { IndexCheck } from '../store/audit/index-check.ts';
import {
  allChains,
  type Chain,
  type ChainedRow,
  chainOf,
  lastCheckpoint,
  rowsAfter,
} from '../store/audit/rows.ts';
import { type MasterKeys, unwrapChainKeys, wrappedChainKeys } from '../store/crypto/keyring.ts';
import type { Db, DbTime } from '../store/engine/db.ts';
import { type Check, fail, ok, startHint, warn } from './check.ts';

/** Milliseconds after which an entry that is not chained causes a warning. */
const maxUnchained = 60_000;

export async function checkChained(db: Db, unchained: number): Promise<Check> {
  const entries = unchained === 1 ? '1 entry is' : `${unchained} entries are`;
  const oldest = await db.get<{ age: DbTime | null }>('select :now - min(at) as age from audit_pending');
  const age = Number(oldest?.age ?? 0);
  if (age > maxUnchained)
    return warn(
      'audit log',
      `${entries} not yet chained, the oldest for ${Math.round(age / 1000)} s`,
      startHint,
    );
  return ok('audit log', unchained === 0 ? 'all entries are chained' : `${entries} not yet chained`);
}

/**
 * Checks each chain: the last checkpoint has a valid signature and signs the last entry, the last entry is unchanged,
 * and the index matches the newest entries.
 */
export async function checkHeads(db: Db, masters: MasterKeys, hint: string): Promise<Check[]> {
  const chains = await allChains(db);
  if (chains.length === 0) return [];
  const keys = await chainKeysOf(db, masters);
  if (!keys) return [fail('audit log', 'the signatures of the checkpoints cannot be verified', hint)];
  const isSigned = signatureCheck(keys);
  for (const { tenantId } of chains) {
    const problem = await findProblem(db, keys, isSigned, tenantId);
    if (problem !== undefined)
      return [fail('audit log', `${problem} in the chain of ${chainName(tenantId)}`, hint)];
  }
  for (const chain of chains)
    if (await hasChangedIndex(db, chain))
      return [
        fail(
          'audit log',
          `the index of the chain of ${chainName(chain.tenantId)} was changed, so filters miss entries`,
          'run `sallyport audit verify`, and then `sallyport audit reindex`',
        ),
      ];
  const total = chains.reduce((sum, { seq }) => sum + seq, 0);
  return [
    ok(
      'audit log',
      `signed: ${total} entries in ${chains.length} ${chains.length === 1 ? 'chain' : 'chains'}`,
    ),
  ];
}

/** How many of the newest entries of each chain are compared with the index. `audit verify` compares all. */
const checkedEntries = 100;

async function hasChangedIndex(db: Db, chain: Chain): Promise<boolean> {
  const after = Math.max(chain.baseSeq, chain.seq - checkedEntries);
  const rows = await rowsAfter(db, chain, { after, upTo: chain.seq }, checkedEntries);
  let isChanged = false;
  const check = await IndexCheck.start({ db, chain }, () => {
    isChanged = true;
  });
  for (const { seq, at, entryText: entry } of rows) {
    check.add({ seq, at, entry });
    if (check.isFull) await check.compare();
  }
  await check.end();
  return isChanged;
}

/** Maximum attempts to check a chain. A problem is checked again if the service has extended the chain. */
const maxAttempts = 20;

async function findProblem(
  db: Db,
  keys: ChainKeys,
  isSigned: ReturnType<typeof signatureCheck>,
  tenantId: string,
): Promise<string | undefined> {
  let problem: string | undefined;
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const chain = await chainOf(db, tenantId);
    if (!chain) return undefined;
    problem = await problemOf(db, keys, isSigned, chain);
    if (problem === undefined || (await chainOf(db, tenantId))?.seq === chain.seq) break;
  }
  return problem;
}

async function problemOf(
  db: Db,
  keys: ChainKeys,
  isSigned: ReturnType<typeof signatureCheck>,
  chain: Chain,
): Promise<string | undefined> {
  const { seq, hash, baseSeq } = chain;
  const head = await lastCheckpoint(db, chain);
  if (!head || !isSigned(checkpointText(head), head.signature))
    return 'the signature of the last checkpoint is missing or invalid';
  const [row] = await rowsAfter(db, chain, { after: seq - 1, upTo: seq }, 1);
  const isIntact = row ? isUnchanged(keys, row) : seq === baseSeq;
  if (head.seq !== seq || !Buffer.from(head.hash).equals(hash) || !isIntact)
    return `entry ${Math.max(head.seq, seq)} was changed or removed after it was signed`;
  return isSystemChainShorter(await chainOf(db, systemTenant), head.system)
    ? `entry ${head.system?.seq} of the system chain was removed after it was signed`
    : undefined;
}

function isSystemChainShorter(
  system: Chain | undefined,
  signed: Pick<Chain, 'seq' | 'hash'> | undefined,
): boolean {
  if (!signed || signed.seq === 0) return false;
  if (!system || signed.seq > system.seq) return true;
  return signed.seq === system.seq && !Buffer.from(signed.hash).equals(system.hash);
}

function isUnchanged(keys: ChainKeys, row: ChainedRow): boolean {
  const mac = row.mac ?? new Uint8Array();
  return isKnownFormat(row.format) && Buffer.compare(expectedMac(keys, row, mac), mac) === 0;
}

function chainName(tenantId: string): string {
  return tenantId === systemTenant ? 'the system' : `tenant ${tenantId}`;
}

/** Returns undefined if the master key that wraps the chain keys is missing. */
export async function chainKeysOf(db: Db, masters: MasterKeys): Promise<ChainKeys | undefined> {
  const stored = await wrappedChainKeys(db);
  const master = stored && masters.find(stored.master_id);
  return master && unwrapChainKeys(master, stored.wrapped);
}
