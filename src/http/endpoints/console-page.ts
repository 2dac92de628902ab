/** Serves the files of the console, which are built on the first request, and the link that the first start prints. */
import { z } from 'zod';
import { fail } from '../../domain/error.ts';
import { mint, nilTag, parseKey, type Secret } from '../../domain/key.ts';
import { validate } from '../../domain/validate.ts';
import { jsonTypes, readJson, receiveBody } from '../pipeline/read-input.ts';
import { openEndpoint } from '../pipeline/route.ts';
import { fileSender } from '../pipeline/static-file.ts';

/** Allows no other origins and no inline code. Trusted types block DOM injection. */
const consolePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const commonHeaders = {
  'Content-Security-Policy': consolePolicy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
};
const send = fileSender(
  async () => (await import('../../../console/build.ts')).buildConsole(),
  commonHeaders,
);

export const getConsole = openEndpoint({
  name: 'getConsole',
  tag: 'Reference',
  summary: 'Get the console page',
  replies: { 200: { description: 'The console page.' } },
  handle: (_, request) => send(request),
});

export const getConsoleFile = openEndpoint({
  name: 'getConsoleFile',
  tag: 'Reference',
  summary: 'Get a file of the console',
  replies: { 200: { description: 'The file.' } },
  failures: ['path_unknown'],
  handle: (_, request) => send(request),
});

/**
 * The link that the first start prints in a terminal. Its code can be exchanged for the first management key once,
 * within ten minutes, so a link in the browser history is useless.
 */
interface OneUseLink {
  /** The URL fragment of the link. */
  readonly code: Secret;
  /** Returns the key once; undefined if the code is wrong, expired or already used. */
  take(code: string): Secret | undefined;
}

const lifetime = 600_000;

export function oneUseLink(key: Secret, now: () => number): OneUseLink {
  const { secret, digest } = mint('non', nilTag);
  const expiresAt = now() + lifetime;
  let unused: Secret | undefined = key;
  return {
    code: secret,
    take: (code) => {
      if (now() >= expiresAt) unused = undefined;
      if (!parseKey(code)?.digest.equals(digest)) return undefined;
      const taken = unused;
      unused = undefined;
      return taken;
    },
  };
}

const Exchange = z.strictObject({ code: z.string().max(200) });

export const openConsoleLink = openEndpoint({
  name: 'openLink',
  tag: 'Reference',
  summary: 'Exchange a console link code for the first management key',
  replies: { 200: { description: 'The management key.', schema: z.object({ key: z.string() }) } },
  failures: ['validation_failed', 'not_found', 'too_large', 'unsupported_media_type'],
  handle: async ({ link, log }, request) => {
    const { value } = readJson(await receiveBody(request, 1024), request.headers, jsonTypes);
    const { code } = validate(Exchange, value, 'body');
    const key = link?.take(code);
    if (!key)
      throw fail('not_found', {
        detail: 'This link has been used or has expired. It works once, within ten minutes.',
      });
    log.info('console opened with the first-start link');
    return { status: 200, body: { key: key.reveal() } };
  },
});
