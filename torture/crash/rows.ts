/** The rows about crashes: processes, disks, connections and databases. */
import type { Row } from '../row.ts';
import { cutOff } from '../rows/database-partition.ts';
import { disclosures } from '../rows/disclosures.ts';
import { disk } from '../rows/disk.ts';
import { failedSyncs } from '../rows/failed-syncs.ts';
import { failover } from '../rows/failover.ts';
import { synced } from '../rows/fsync-order.ts';
import { kill } from '../rows/kill.ts';
import { lostWrites } from '../rows/lost-writes.ts';
import { migration } from '../rows/migration.ts';
import { oldPrimary } from '../rows/old-primary.ts';
import { pointInTime } from '../rows/point-in-time.ts';
import { postgresOutages } from '../rows/postgres-outages.ts';
import { rotation } from '../rows/rotation.ts';
import { storage } from '../rows/storage-faults.ts';
import { streamKill } from '../rows/stream-kill.ts';
import { useKill } from '../rows/use-kill.ts';
import { workerLoss } from '../rows/worker-loss.ts';
import { workers } from '../rows/workers.ts';

export const crashes: readonly Row[] = [
  cutOff,
  kill,
  workers,
  disclosures,
  useKill,
  streamKill,
  synced,
  lostWrites,
  failedSyncs,
  storage,
  failover,
  workerLoss,
  oldPrimary,
  postgresOutages,
  pointInTime,
  disk,
  migration,
  rotation,
];
