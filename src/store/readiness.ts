/** Checks that this node can serve requests. */
import { nilTenant } from '../domain/key.ts';
import { currentMaster, type MasterKeys, missingReason } from './crypto/keyring.ts';
import { type Db, DbUnavailable } from './engine/db.ts';

/**
 * Throws `DbUnavailable` if requests would fail. `masters` is undefined for a store without encryption. A lookup fails
 * on a standby and on a read-only database.
 */
export async function checkReadiness(db: Db, masters: MasterKeys | undefined): Promise<void> {
  await db.lookup(
    'select digest as key from application_keys where tenant_id = $2 and digest = :key',
    new Uint8Array(32),
    [nilTenant],
  );
  if (masters) await checkCurrentMaster(db, masters);
}

/** After a rotation, a node without the new master key cannot unwrap data keys. */
async function checkCurrentMaster(db: Db, masters: MasterKeys): Promise<void> {
  const id = await currentMaster(db);
  if (!masters.find(id))
    throw new DbUnavailable(`the database needs the master key ${id}, ${missingReason(masters)}`);
}
