/** Revokes a key by its tag and digest, without knowing its owner. */
import type { EntryWriter } from '../audit/log.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import { nilTenant, type ParsedKey } from '../domain/key.ts';
import { longestSession } from '../domain/session.ts';
import { notExpired } from './applications.ts';
import type { ChainKeys } from './crypto/keyring.ts';
import type { Db } from './engine/db.ts';
import { databaseTime } from './engine/sql.ts';
import type { NewEntry, RevokedKey } from './store.ts';
import type { TenantTags } from './tenants.ts';

interface KeyRow {
  readonly tenant_id: string;
  readonly application_id: string;
  readonly id: string;
  readonly ending: string;
}

interface SessionRow {
  readonly tenant_id: string;
  readonly id: string;
}

/**
 * Ends the sessions that the key authorized without being their ceiling. Sessions whose ceiling it is end when the key
 * is deleted.
 */
const endUnlimitedSessions = `insert into leaked_keys (tenant_id, digest, expires_at)
  select k.tenant_id, k.digest, :now + ${longestSession} from application_keys k
  where k.tenant_id = $1 and k.digest = $2 and ${notExpired('k')} on conflict do nothing`;

const deleteKey = `delete from application_keys as k where k.tenant_id = $1 and k.digest = $2 and ${notExpired('k')}
  returning tenant_id, application_id, id, ending`;

const deleteSession = `delete from sessions as s where s.tenant_id = $1 and s.key_digest = $2 and s.expires_at > :now
  returning tenant_id, id`;

/** See `Store.revokeKey`. All statements run for every key, so that an unknown key takes as long as a known one. */
export function keyRevoker(
  db: Db,
  tags: TenantTags,
  chainKeys: () => Awaitable<ChainKeys>,
  writeEntries: EntryWriter,
) {
  return async (
    { tag, digest }: Pick<ParsedKey, 'tag' | 'digest'>,
    entryOf: (revoked: RevokedKey | undefined, at: number) => NewEntry,
  ): Promise<void> => {
    await chainKeys();
    const tenant = (await tags.find(tag)) ?? nilTenant;
    await db.change(
      async (tx) => {
        const now = await databaseTime(tx);
        await tx.run(endUnlimitedSessions, [tenant, digest]);
        const key = await tx.get<KeyRow>(deleteKey, [tenant, digest]);
        const session = await tx.get<SessionRow>(deleteSession, [tenant, digest]);
        await tx.defer(writeEntries, entryOf(toRevoked(key, session), now));
      },
      digest.toHex(),
      tenant,
    );
  };
}

function toRevoked(key: KeyRow | undefined, session: SessionRow | undefined): RevokedKey | undefined {
  if (key) {
    const { tenant_id: tenantId, application_id: applicationId, id, ending } = key;
    return { tenantId, applicationId, key: { id, ending } };
  }
  return session && { tenantId: session.tenant_id, sessionId: session.id };
}
