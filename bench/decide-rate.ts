/** `decide-rate.ts MILLISECONDS CONTAINERS` prints Sallyport's decisions per second by number of rules. */
import { compilePolicy, decide, type Resource } from '../src/domain/policy.ts';
import type { Rule } from '../src/domain/rule.ts';

const [milliseconds, containers] = process.argv.slice(2).map(Number) as [number, number];
/** Used in turn, so that consecutive decisions differ. */
const resources = Array.from({ length: containers }, (_, at) => ({
  id: `card-${at}`,
  container: `/customers/42/cards/${at}/`,
}));

function rules(count: number): Rule[] {
  return Array.from({ length: count }, (_, at) => ({
    description: undefined,
    priority: at + 1,
    container: at === count >> 1 ? '/customers/42/' : `/customers/${1000 + at}/`,
    conditions: undefined,
    transform: 'mask',
    permissions: ['token:read'],
  }));
}

/** Decisions per second. Throws unless all of them allow. */
function run(ask: (at: number) => boolean, milliseconds: number): number {
  const startedAt = performance.now();
  let [done, allowed] = [0, 0];
  for (; performance.now() - startedAt < milliseconds; done += 128)
    for (let call = 0; call < 128; call++) if (ask(call & (containers - 1))) allowed++;
  if (allowed !== done) throw new Error('a decision denied access');
  return done / ((performance.now() - startedAt) / 1000);
}

const rates: Record<number, number> = {};
for (const count of [1, 10, 50]) {
  const policy = compilePolicy({ permissions: [], rules: rules(count) });
  const ask = (at: number) => decide(policy, 'token:read', resources[at] as Resource).allowed;
  run(ask, milliseconds / 2);
  rates[count] = run(ask, milliseconds);
}
console.log(JSON.stringify(rates));
