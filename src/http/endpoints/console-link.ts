/**
 * The link that the first start prints in a terminal. Its code can be exchanged for the first management key once,
 * within ten minutes, so a link in the browser history is useless.
 */
import { z } from 'zod';
import { fail } from '../../domain/error.ts';
import { mint, parseKey, type Secret } from '../../domain/key.ts';
import { validate } from '../../domain/validate.ts';
import { jsonTypes, readJson, receiveBody } from '../pipeline/read-input.ts';
import { openEndpoint } from '../pipeline/route.ts';

interface OneUseLink {
  /** The URL fragment of the link. */
  readonly code: Secret;
  /** Returns the key once; undefined if the code is wrong, expired or already used. */
  take(code: string): Secret | undefined;
}

const lifetime = 600_000;

export function oneUseLink(key: Secret, now: () => number): OneUseLink {
  const { secret, digest } = mint('non');
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
