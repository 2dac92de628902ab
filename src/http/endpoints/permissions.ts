import { z } from 'zod';
import { builtIn, descriptionOf, isA } from '../../domain/permission.ts';
import { readQuery } from '../pipeline/read-query.ts';
import { openEndpoint } from '../pipeline/route.ts';

const PermissionView = z
  .object({
    name: z.string().describe('As grants name it.'),
    description: z.string().describe('What it allows.'),
    browser: z.boolean().describe('Whether a public Application or a Session may hold it.'),
    management: z.boolean().describe('Whether only those who hold it may hand it on.'),
  })
  .meta({ id: 'Permission' });

const data = builtIn.map((name) => ({
  name,
  description: descriptionOf(name),
  browser: isA('browser', name),
  management: isA('management', name),
}));

export const listPermissions = openEndpoint({
  name: 'listPermissions',
  tag: 'Reference',
  summary: 'List the built-in permissions',
  description: 'Names in other families are free for resources of your own.',
  replies: {
    200: {
      description: 'All of them.',
      schema: z.object({
        data: z.array(PermissionView).describe('Every one of them, in no more than one page.'),
      }),
      example: { data },
    },
  },
  failures: ['validation_failed'],
  handle: (_, { url }) => {
    readQuery(undefined, url);
    return { status: 200, body: { data } };
  },
});
