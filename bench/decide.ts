/**
 * `npm run bench:decide`: what one decision costs, in time and in memory, by number of rules. It runs itself a
 * second time without garbage collection, so that whatever a call allocates shows as growth of the process.
 */
import { heapStats } from 'bun:jsc';
import { compilePolicy, decide, type Policy, type Resource } from '../src/domain/policy.ts';
import type { Rule } from '../src/domain/rule.ts';

const calls = 1_000_000;
const rounds = 5;
/** Asked one after the other, so that no answer is the one before. */
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

/** `count` rules that grant the permission elsewhere, of which one may match. */
function policy(count: number, matching?: number): Policy {
  const rules = Array.from({ length: count }, (_, at) =>
    rule(at + 1, at === matching ? '/customers/42/' : `/customers/${1000 + at}/`),
  );
  return compilePolicy({ permissions: [], rules });
}

const rows = [1, 10, 50].flatMap((rules) => [
  { rules, case: 'the first decides', policy: policy(rules, 0) },
  { rules, case: 'the last decides', policy: policy(rules, rules - 1) },
  { rules, case: 'none matches', policy: policy(rules) },
]);

/** How many are allowed: an answer that nobody looks at need not be worked out. */
function ask(policy: Policy): number {
  let allowed = 0;
  for (let call = 0; call < calls; call++)
    if (decide(policy, 'token:read', resources[call & 7] as Resource).allowed) allowed++;
  return allowed;
}

/** The best of some rounds, since other programs run here, too. */
function nanoseconds(policy: Policy): number {
  const times = Array.from({ length: rounds }, () => {
    const before = Bun.nanoseconds();
    ask(policy);
    return (Bun.nanoseconds() - before) / calls;
  });
  return Math.round(Math.min(...times));
}

/** What is still on the heap after all calls, once the garbage is gone. */
function growth(policy: Policy): number {
  Bun.gc(true);
  const before = heapStats().heapSize;
  ask(policy);
  Bun.gc(true);
  return heapStats().heapSize - before;
}

function allocated(policy: Policy): number {
  ask(policy);
  const before = process.memoryUsage.rss();
  ask(policy);
  return Math.max(0, Math.round((process.memoryUsage.rss() - before) / calls));
}

const withoutCollector = { BUN_JSC_useGC: '0' };
if (process.env.BUN_JSC_useGC === '0') {
  console.log(JSON.stringify(rows.map((row) => allocated(row.policy))));
} else {
  for (const row of rows) ask(row.policy);
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
