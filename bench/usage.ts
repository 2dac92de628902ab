/** `npm run bench:usage`: cost of recording usage and of counting per request. */
import { newId } from '../src/domain/key.ts';
import { compilePolicy } from '../src/domain/policy.ts';
import type { Principal } from '../src/domain/principal.ts';
import { requestCounter } from '../src/http/pipeline/request-counter.ts';
import { usageRecorder } from '../src/http/pipeline/usage-recorder.ts';

const calls = 1_000_000;
const rounds = 5;

function principal(): Principal {
  const applicationId = newId(0);
  return {
    kind: 'session',
    tenantTag: 'k3ZrT9',
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
function nanosecondsPerCall(work: (call: number) => void): number {
  const times = Array.from({ length: rounds }, () => {
    const before = Bun.nanoseconds();
    for (let call = 0; call < calls; call++) work(call);
    return (Bun.nanoseconds() - before) / calls;
  });
  return Math.round(Math.min(...times));
}

function recordingTime(applications: number, containers: number): number {
  const principals = Array.from({ length: applications }, principal);
  const places = Array.from({ length: containers }, (_, at) => `/customers/${at}/`);
  const recorder = usageRecorder({ usage: { write: async () => {} } });
  return nanosecondsPerCall((call) => {
    const who = principals[call % applications] as Principal;
    recorder.request(who);
    recorder.record(who, 'token:read', places[call % containers]);
  });
}

/** Includes the two measurements of the time. */
function countingTime(tenants: number): number {
  const principals = Array.from({ length: tenants }, principal);
  const list = async () => ({ start: 0, length: 1, end: 1, counts: [] });
  const counter = requestCounter({ requestCounts: { add: async () => {}, list } });
  return nanosecondsPerCall((call) => {
    const start = performance.now();
    counter.count(principals[call % tenants] as Principal, 200, performance.now() - start);
  });
}

console.table(
  [
    { applications: 1, containers: 1 },
    { applications: 1, containers: 50 },
    { applications: 1, containers: 1000 },
    { applications: 1000, containers: 1 },
    { applications: 10_000, containers: 50 },
  ].map((row) => ({ ...row, 'ns per request': recordingTime(row.applications, row.containers) })),
);
console.table([1, 1000, 10_000].map((tenants) => ({ tenants, 'ns per request': countingTime(tenants) })));
