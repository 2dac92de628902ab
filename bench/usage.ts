/** `npm run bench:usage`: cost of recording usage per request, by number of applications and containers. */
import { newId } from '../src/domain/key.ts';
import { compilePolicy } from '../src/domain/policy.ts';
import type { Principal } from '../src/domain/principal.ts';
import { usageRecorder } from '../src/http/pipeline/usage-recorder.ts';

const calls = 1_000_000;
const rounds = 5;

function principal(): Principal {
  const applicationId = newId(0);
  return {
    kind: 'session',
    tenantId: newId(0),
    applicationId,
    sessionId: newId(0),
    authorizedBy: undefined,
    policy: compilePolicy({ permissions: [], rules: [] }),
    ceiling: undefined,
    origins: undefined,
    authority: { applicationId, keyId: newId(0) },
    digest: Buffer.alloc(32),
    now: Date.now(),
  };
}

/** The fastest round, to exclude other load on the machine. */
function nanoseconds(applications: number, containers: number): number {
  const principals = Array.from({ length: applications }, principal);
  const places = Array.from({ length: containers }, (_, at) => `/customers/${at}/`);
  const noted = usageRecorder({ usage: { write: async () => {}, list: () => [] } });
  const times = Array.from({ length: rounds }, () => {
    const before = Bun.nanoseconds();
    for (let call = 0; call < calls; call++) {
      const who = principals[call % applications] as Principal;
      noted.record(who);
      noted.record(who, 'token:read', places[call % containers]);
    }
    return (Bun.nanoseconds() - before) / calls;
  });
  return Math.round(Math.min(...times));
}

console.table(
  [
    { applications: 1, containers: 1 },
    { applications: 1, containers: 50 },
    { applications: 1, containers: 1000 },
    { applications: 1000, containers: 1 },
    { applications: 10_000, containers: 50 },
  ].map((row) => ({ ...row, 'ns per request': nanoseconds(row.applications, row.containers) })),
);
