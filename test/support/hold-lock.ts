/** Holds the lock for exclusive work until the process is killed. Arguments: the URL, and the time of its clock. */
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { fewConnections, generousTimeout } from './test-server.ts';

const [url = '', time = ''] = process.argv.slice(2);
await openPostgres(url, () => Number(time), generousTimeout, fewConnections).exclusively(async (tx) => {
  await tx.run('delete from sums');
  console.log('held');
  await new Promise(() => {});
});
