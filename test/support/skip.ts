/** Skips tests whose requirements the machine lacks. The summary of the run lists the reasons. */
import { existsSync } from 'node:fs';

const prefix = 'skipped because: ';

/** A condition for `skipIf`. `reason` names the tests and what is missing. */
export function isMissing(available: boolean, reason: string): boolean {
  if (!available) console.log(prefix + reason);
  return !available;
}

/** The reason in a line of output, if it has one. */
export function skipReason(line: string): string | undefined {
  return line.startsWith(prefix) ? line.slice(prefix.length) : undefined;
}

export const noCurl = () =>
  isMissing(Bun.which('curl') !== null, 'README, guide and API reference examples: no curl found');

export const noNginx = () =>
  isMissing(
    Bun.which('nginx') !== null && existsSync('/usr/lib/nginx/modules/ngx_http_js_module.so'),
    'guides for gateways and several installations: no nginx with njs found',
  );

/** `tests` is their subject. */
export const noCitus = (tests: string) =>
  isMissing(
    process.env.CITUS_TEMPLATE !== undefined,
    `${tests} on a Citus cluster: \`npm run test:citus\` runs them where Citus is installed`,
  );
