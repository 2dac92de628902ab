import { z } from 'zod';
import { fail } from '../../domain/error.ts';
import { openEndpoint, reply } from '../pipeline/route.ts';

const Status = z.object({
  status: z.literal('ok').describe('Always `ok`. Otherwise, the response is an error.'),
});
const tag = 'Health';
const ok = { status: 200, body: { status: 'ok' } };

export const livez = openEndpoint({
  name: 'live',
  tag,
  summary: 'Check liveness',
  replies: { 200: reply('The process is running.', Status, ok.body) },
  handle: async () => ok,
});

export const readyz = openEndpoint({
  name: 'ready',
  tag,
  summary: 'Check readiness',
  description:
    'Returns 503 while the database is unreachable or read-only, while the node lacks the current master key, and while the process is shutting down.',
  replies: { 200: reply('The service accepts requests.', Status, ok.body) },
  failures: ['unavailable'],
  handle: async ({ ready, store }) => {
    if (!ready()) throw fail('unavailable', { detail: 'The service is shutting down.', expected: true });
    await store.ping();
    return ok;
  },
});
