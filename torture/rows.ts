/** Every row of the torture run, in the order of the table. */
import { crashes } from './crash/rows.ts';
import type { Row } from './row.ts';
import { deleteWhileLarge } from './rows/delete-while-large.ts';
import { escalation } from './rows/escalation.ts';
import { histories } from './rows/histories.ts';
import { isolation } from './rows/isolation.ts';
import { keyTiming } from './rows/key-timing.ts';
import { noGainByMoves } from './rows/no-gain-by-moves.ts';
import { oneNonce } from './rows/one-nonce.ts';
import { requests } from './rows/requests.ts';
import { revocations } from './rows/revocations.ts';
import { secrets } from './rows/secrets.ts';
import { slowSockets } from './rows/slow-sockets.ts';
import { smallKeys } from './rows/small-keys.ts';
import { soak } from './rows/soak.ts';

export const rows: readonly Row[] = [
  oneNonce,
  revocations,
  requests,
  isolation,
  escalation,
  noGainByMoves,
  histories,
  deleteWhileLarge,
  soak,
  slowSockets,
  smallKeys,
  keyTiming,
  secrets,
  ...crashes,
];
