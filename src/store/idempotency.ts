import { createHash, createHmac } from 'node:crypto';
import type { Executor, Queries } from '../db/db.ts';
import { decrypt, encrypt } from '../db/keys/cipher.ts';
import { type Clause, clause, sql } from '../db/statement.ts';
import { fail } from '../domain/error.ts';
import { type Charge, checkGrowth, writeCharges } from './application-storage.ts';
import type { Idempotency } from './store.ts';

/** How long a response is replayed, in milliseconds. */
const retention = 86_400_000;

/** About the bytes of a record in the database, with its index entries. Measured like `storedBytes`. */
const bytesOf = (reply: Uint8Array) => Math.round(512 + 1.2 * reply.length);

/** Runs in the transaction of the change, so that a record exists if and only if the change was committed. */
export function idempotency(tx: Executor, dataKey: (tenant: string) => Uint8Array): Idempotency {
  return {
    find: async (tenant, { caller, key, request }) => {
      const digest = fingerprint(dataKey(tenant), key);
      if (!tx.isEmbedded && !(await tryLock(tx, `${tenant} ${caller} ${key}`)))
        throw fail('idempotency_running');
      const row = await tx.get<{ request_digest: Uint8Array; reply: Uint8Array }>(sql`
        select request_digest, reply from idempotency
         where tenant_id = ${tenant} and caller_id = ${caller} and key_digest = ${digest} and expires_at > :now`);
      if (!row) return undefined;
      const same = Buffer.from(row.request_digest).equals(fingerprint(dataKey(tenant), request));
      if (!same) throw fail('idempotency_mismatch');
      const reply = decrypt(dataKey(tenant), contextOf(tenant, caller, digest), row.reply);
      if (!reply)
        throw new Error('an idempotency record cannot be decrypted: it was changed by another program');
      return JSON.parse(Buffer.from(reply).toString());
    },

    save: async (tenant, { caller, application, key, request }, reply, now, quota) => {
      const digest = fingerprint(dataKey(tenant), key);
      const encrypted = encrypt(
        dataKey(tenant),
        contextOf(tenant, caller, digest),
        Buffer.from(JSON.stringify(reply)),
      );
      const bytes = bytesOf(encrypted);
      await checkGrowth(tx, tenant, application, bytes, quota);
      // Only an expired record is replaced. If another change has inserted a record since `find`, the insert fails.
      const replaced = await removeRecords(
        tx,
        clause`delete from idempotency
         where tenant_id = ${tenant} and caller_id = ${caller} and key_digest = ${digest} and expires_at <= :now`,
      );
      await tx.run(sql`insert into idempotency
          (tenant_id, caller_id, key_digest, request_digest, reply, expires_at, application_id, bytes)
        values (${tenant}, ${caller}, ${digest}, ${fingerprint(dataKey(tenant), request)}, ${encrypted},
        ${now + retention}, ${application}, ${bytes})`);
      const charge: Charge = { tenant, application, kind: 'records', tokens: 0, bytes };
      for (const each of [...replaced, charge]) await tx.defer(writeCharges, each);
    },
  };
}

/**
 * Runs the statement `deletion` on records, and subtracts their size from the storage of their applications. Returns the
 * number of deleted records.
 */
export async function deleteRecords(tx: Queries, deletion: Clause): Promise<number> {
  const credits = await removeRecords(tx, deletion);
  if (credits.length > 0) await writeCharges(tx, credits);
  return credits.length;
}

/** Returns the charges that the caller has to write. */
async function removeRecords(tx: Queries, deletion: Clause): Promise<Charge[]> {
  const deleted = await tx.returning<{ tenant_id: string; application_id: string; bytes: number }>(sql`
    ${deletion} returning tenant_id, application_id, bytes`);
  return deleted.map(({ tenant_id, application_id, bytes }) => ({
    tenant: tenant_id,
    application: application_id,
    kind: 'records',
    tokens: 0,
    bytes: -bytes,
  }));
}

/**
 * Takes a lock until the transaction ends. Returns false if another transaction with the same idempotency key holds it.
 */
async function tryLock(tx: Queries, name: string): Promise<boolean> {
  const number = sha256(name).readBigInt64BE().toString();
  const row = await tx.get<{ got: boolean }>(`select pg_try_advisory_xact_lock(${number}) as got`);
  return row?.got === true;
}

function contextOf(tenant: string, caller: string, digest: Buffer): string {
  return `sallyport reply ${tenant} ${caller} ${digest.toString('hex')}`;
}

/** An HMAC: a plain hash would let a reader of the database guess the request, which may contain token data. */
function fingerprint(key: Uint8Array, request: string): Buffer {
  return createHmac('sha256', key).update('sallyport request').update(request).digest();
}

function sha256(text: string | Uint8Array): Buffer {
  return createHash('sha256').update(text).digest();
}
