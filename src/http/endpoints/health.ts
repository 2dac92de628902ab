import { z } from 'zod';
import { fail } from '../../domain/error.ts';
import { openEndpoint } from '../pipeline/route.ts';

const Status = z.object({ status: z.literal('ok').describe('Any other state is a failure.') });
const tag = 'Health';
const ok = { status: 200, body: { status: 'ok' } };

export const livez = openEndpoint({
  name: 'live',
  tag,
  summary: 'Whether the process runs',
  replies: { 200: { description: 'It does.', schema: Status, example: ok.body } },
  handle: () => ok,
});

export const readyz = openEndpoint({
  name: 'ready',
  tag,
  summary: 'Whether to send requests here',
  description:
    'Not while the database is out of reach, and not from the moment that the program was told to stop.',
  replies: { 200: { description: 'Yes.', schema: Status, example: ok.body } },
  failures: ['unavailable'],
  handle: async ({ ready, store }) => {
    if (!ready()) throw fail('unavailable', { detail: 'The service is stopping.', expected: true });
    await store.ping();
    return ok;
  },
});
