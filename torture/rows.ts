/** All rows of the torture run, in table order. */
import { crashes } from './crash/rows.ts';
import type { Row } from './row.ts';
import { consoleSessions } from './rows/console-sessions.ts';
import { deleteWhileLarge } from './rows/delete-while-large.ts';
import { escalation } from './rows/escalation.ts';
import { smallKeys } from './rows/expensive-requests.ts';
import { guesses } from './rows/guesses.ts';
import { histories } from './rows/histories.ts';
import { hostileDestinations } from './rows/hostile-destinations.ts';
import { noLostUpdate } from './rows/if-match-race.ts';
import { isolation } from './rows/isolation.ts';
import { oneExchange } from './rows/jwt-race.ts';
import { keyTiming } from './rows/key-timing.ts';
import { leakedKeys } from './rows/leaked-keys.ts';
import { networks } from './rows/networks.ts';
import { oneNonce } from './rows/nonce-race.ts';
import { requests } from './rows/requests.ts';
import { retention } from './rows/retention.ts';
import { revocations } from './rows/revocations.ts';
import { secrets } from './rows/secrets.ts';
import { sinks } from './rows/sinks.ts';
import { slowDestination } from './rows/slow-destination.ts';
import { slowSockets } from './rows/slow-sockets.ts';
import { soak } from './rows/soak.ts';
import { stalls } from './rows/stalls.ts';
import { stolenSessions } from './rows/stolen-sessions.ts';
import { noGainByMoves } from './rows/token-moves.ts';
import { exactUses } from './rows/use-race.ts';

export const rows: readonly Row[] = [
  oneNonce,
  oneExchange,
  consoleSessions,
  exactUses,
  noLostUpdate,
  revocations,
  stolenSessions,
  leakedKeys,
  networks,
  requests,
  isolation,
  escalation,
  noGainByMoves,
  histories,
  deleteWhileLarge,
  soak,
  slowSockets,
  slowDestination,
  hostileDestinations,
  guesses,
  sinks,
  smallKeys,
  stalls,
  keyTiming,
  retention,
  secrets,
  ...crashes,
];
