/** The service with a clock that the parent process controls: each message advances it by milliseconds. */
import { openApp } from '../../../src/app.ts';
import { readConfig } from '../../../src/config/settings.ts';
import { Clock } from '../test-server.ts';

const clock = new Clock();
const config = readConfig({ env: process.env });
const app = await openApp(config, { now: clock.now, checkReplies: true });

process.on('message', (milliseconds: number) => {
  clock.advance(milliseconds);
  process.send?.(timestamp());
});
process.on('disconnect', async () => {
  await app.close();
  process.exit(0);
});
process.send?.(app.url);

function timestamp(): string {
  return new Date(clock.now()).toISOString();
}
