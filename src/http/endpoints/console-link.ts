/**
 * The link that a first start prints in a terminal: a code that stands for the first management key, once and
 * for ten minutes. A browser may write an address into its history; the code in it is worthless by then.
 */
import { z } from 'zod';
import { fail } from '../../domain/error.ts';
import { validate } from '../../domain/validate.ts';
import { jsonTypes, readBody, readJson } from '../pipeline/read-body.ts';
import { openEndpoint } from '../pipeline/route.ts';

const Exchange = z.strictObject({ code: z.string().max(200) });

export const openConsoleLink = openEndpoint({
  name: 'openLink',
  tag: 'Reference',
  summary: 'Exchange the code of a link for the key that it stands for',
  replies: { 200: { description: 'The key.', schema: z.object({ key: z.string() }) } },
  failures: ['validation_failed', 'not_found', 'too_large', 'unsupported_media_type'],
  handle: async ({ link, log }, request) => {
    const { value } = readJson(await readBody(request, 1024), request.headers, jsonTypes);
    const { code } = validate(Exchange, value, 'body');
    const key = link?.take(code);
    if (!key) throw fail('not_found', { detail: 'This link is over: it opens once, within ten minutes.' });
    log.info('the console was opened by the link of the first start');
    return { status: 200, body: { key: key.reveal() } };
  },
});
