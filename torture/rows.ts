/** Every row of the torture run, in the order of the table. */
import { crashes } from './crash/rows.ts';
import type { Row } from './row.ts';
import { escalation } from './rows/escalation.ts';
import { histories } from './rows/histories.ts';
import { isolation } from './rows/isolation.ts';
import { keyTiming } from './rows/key-timing.ts';
import { oneNonce } from './rows/one-nonce.ts';
import { requests } from './rows/requests.ts';
import { revocations } from './rows/revocations.ts';
import { secrets } from './rows/secrets.ts';
import { slowSockets } from './rows/slow-sockets.ts';
import { soak } from './rows/soak.ts';

export const rows: readonly Row[] = [
  oneNonce,
  revocations,
  requests,
  isolation,
  escalation,
  histories,
  soak,
  slowSockets,
  keyTiming,
  secrets,
  ...crashes,
];
