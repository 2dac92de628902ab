/**
 * `npm run prove [-- --cases 1000000] [--seed N]`: compares the policy with the naive implementation on random
 * cases. Case n of seed s is case 0 of seed s + n.
 */
import { parseArgs } from 'node:util';
import { caseFromSeed, disagreement, shrink } from './support/compare-policy.ts';

const { values } = parseArgs({ options: { cases: { type: 'string' }, seed: { type: 'string' } } });
const cases = parseCount('cases', values.cases ?? '1000000');
const seed = parseCount('seed', values.seed ?? String(crypto.getRandomValues(new Uint32Array(1))[0]));

function parseCount(name: string, text: string): number {
  if (/^\d{1,10}$/.test(text)) return Number(text);
  console.error(`prove: error: --${name} must be a whole number of at most 10 digits`);
  process.exit(2);
}

console.log(`${cases} cases, seed ${seed}`);
for (let n = 0; n < cases; n++) {
  const found = disagreement(caseFromSeed(seed + n));
  if (found) {
    if (process.stdout.isTTY) console.log();
    console.log(`disagreement on case ${n}: npm run prove -- --cases 1 --seed ${seed + n}`);
    console.log(Bun.inspect(shrink(found), { depth: 10, colors: process.stdout.isTTY }));
    process.exit(1);
  }
  if (process.stdout.isTTY && n % 10_000 === 0) process.stdout.write(`\r${n} agree`);
}
if (process.stdout.isTTY) process.stdout.write('\r');
console.log(`all ${cases} agree`);
