/**
 * `npm run bench:decide`: time and memory of one decision by number of rules. Measures allocations in a second process
 * without garbage collection, as growth of its memory.
 */
import { heapStats } from 'bun:jsc';
import { compilePolicy, decide, type Policy, type Resource } from '../src/domain/policy.ts';
import type { Rule } from '../src/domain/rule.ts';

const calls = 1_000_000;
const rounds = 5;
/** Used in turn, so that consecutive decisions differ. */
const resources = Array.from({ length: 8 }, (_, at) => ({
  id: `card-${at}`,
  container: `/customers/42/cards/${at}/`,
}));

function rule(priority: number, container: string): Rule {
  return {
    description: undefined,
    priority,
    container,
    conditions: undefined,
    transform: 'mask',
    permissions: ['token:create', 'token:read'],
  };
}

/** `count` rules. Only the one at index `matching`, if given, matches the resources. */
function policy(count: number, matching?: number): Policy {
  const rules = Array.from({ length: count }, (_, at) =>
    rule(at + 1, at === matching ? '/customers/42/' : `/customers/${1000 + at}/`),
  );
  return compilePolicy({ permissions: [], rules });
}

const rows = [1, 10, 50].flatMap((rules) => [
  { rules, case: 'first rule matches', policy: policy(rules, 0) },
  { rules, case: 'last rule matches', policy: policy(rules, rules - 1) },
  { rules, case: 'no rule matches', policy: policy(rules) },
]);

/** Uses the results, so that the calls are not optimized away. */
function decideMany(policy: Policy): number {
  let allowed = 0;
  for (let call = 0; call < calls; call++)
    if (decide(policy, 'token:read', resources[call & 7] as Resource).allowed) allowed++;
  return allowed;
}

/** The fastest round, to exclude other load on the machine. */
function nanoseconds(policy: Policy): number {
  const times = Array.from({ length: rounds }, () => {
    const before = Bun.nanoseconds();
    decideMany(policy);
    return (Bun.nanoseconds() - before) / calls;
  });
  return Math.round(Math.min(...times));
}

/** Heap growth after garbage collection. */
function growth(policy: Policy): number {
  Bun.gc(true);
  const before = heapStats().heapSize;
  decideMany(policy);
  Bun.gc(true);
  return heapStats().heapSize - before;
}

function allocated(policy: Policy): number {
  decideMany(policy);
  const before = process.memoryUsage.rss();
  decideMany(policy);
  return Math.max(0, Math.round((process.memoryUsage.rss() - before) / calls));
}

const withoutCollector = { BUN_JSC_useGC: '0' };
if (process.env.BUN_JSC_useGC === '0') {
  console.log(JSON.stringify(rows.map((row) => allocated(row.policy))));
} else {
  for (const row of rows) decideMany(row.policy);
  const child = Bun.spawnSync([process.execPath, '--no-env-file', import.meta.path], {
    env: { ...process.env, ...withoutCollector },
  });
  const bytes = JSON.parse(child.stdout.toString()) as number[];
  console.table(
    rows.map((row, at) => ({
      rules: row.rules,
      case: row.case,
      'ns per call': nanoseconds(row.policy),
      'bytes allocated per call': bytes[at],
      [`heap growth over ${calls} calls`]: growth(row.policy),
    })),
  );
}
