import { z } from 'zod';
import { fail } from '../../domain/error.ts';
import { openEndpoint, reply } from '../pipeline/route.ts';

const Status = z.object({
  status: z.literal('ok').describe('Always `ok`. Otherwise, the response is an error.'),
});
const LiveStatus = Status.extend({
  database: z
    .object({
      installation: z.uuid().describe('Identifies the database.'),
      era: z.int().describe('How often an operator has accepted a database that was behind.'),
      timeline: z.int().describe('The timeline of the PostgreSQL server.'),
      beat: z.int().describe('A counter that every node increases once a second.'),
    })
    .optional()
    .describe(
      'The newest position of the PostgreSQL database that this node has seen. Other nodes read it, to refuse a server that is behind.',
    ),
});
const Ready = Status.extend({
  version: z.string().describe('Version of the program, with the commit for a build from source.'),
  schema: z.int().describe('Version of the database schema.'),
  disk_full: z.literal(true).optional().describe('Only changes that take access away are made.'),
});
const tag = 'Health';
const ok = { status: 200, body: { status: 'ok' } };

export const livez = openEndpoint({
  name: 'live',
  tag,
  summary: 'Check liveness',
  replies: { 200: reply('The process is running.', LiveStatus, ok.body) },
  handle: async ({ position }) => {
    const database = position();
    return database ? { status: 200, body: { ...ok.body, database } } : ok;
  },
});

export const readyz = openEndpoint({
  name: 'ready',
  tag,
  summary: 'Check readiness',
  description:
    'Returns 503 while the database is unreachable or read-only, while the node lacks the current master key, and while the process is shutting down.',
  replies: {
    200: reply('The service accepts requests.', Ready, {
      ...ok.body,
      version: '0.3.0+1a2b3c4d5e6f',
      schema: 1,
    }),
  },
  failures: ['unavailable'],
  handle: async ({ ready, store, running }) => {
    if (!ready()) throw fail('unavailable', { detail: 'The service is shutting down.', expected: true });
    const { isDiskFull } = await store.ping();
    return { status: 200, body: { ...ok.body, ...running, ...(isDiskFull && { disk_full: true }) } };
  },
});
