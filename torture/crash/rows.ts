/** The rows about what goes down: processes, disks, wires and databases. */
import type { Row } from '../row.ts';
import { cutOff } from '../rows/cut-off.ts';
import { disk } from '../rows/disk.ts';
import { failover } from '../rows/failover.ts';
import { kill } from '../rows/kill.ts';
import { migration } from '../rows/migration.ts';
import { rotation } from '../rows/rotation.ts';
import { storage } from '../rows/storage.ts';
import { synced } from '../rows/synced.ts';

export const crashes: readonly Row[] = [cutOff, kill, synced, storage, failover, disk, migration, rotation];
