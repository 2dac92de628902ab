import { z } from 'zod';
import { Flag, Text } from '../../domain/common-fields.ts';
import { builtIn, descriptionOf, hasTrait } from '../../domain/permission.ts';
import { holds } from '../../domain/principal.ts';
import { readQuery } from '../pipeline/read-input.ts';
import { openEndpoint, readEndpoint, reply } from '../pipeline/route.ts';

const PermissionView = z
  .object({
    name: Text.describe('The name used in grants.'),
    description: Text.describe('The requests that it allows.'),
    browser: Flag.describe('Whether a public application can hold it.'),
    session: Flag.describe('Whether a session can hold it.'),
    management: Flag.describe('Whether only holders of this permission can grant it.'),
  })
  .meta({ id: 'Permission' });

const data = builtIn.map((name) => ({
  name,
  description: descriptionOf(name),
  browser: hasTrait(name, 'browser'),
  session: hasTrait(name, 'browser') || hasTrait(name, 'session'),
  management: hasTrait(name, 'management'),
}));

const PermissionList = z.object({
  data: z.array(PermissionView).describe('All built-in permissions, without pagination.'),
});

export const listPermissions = openEndpoint({
  name: 'listPermissions',
  tag: 'Reference',
  summary: 'List the built-in permissions',
  description:
    'Returns all built-in permissions. You can use permission names in other families for your own resources.',
  replies: { 200: reply('All built-in permissions.', PermissionList, { data }) },
  failures: ['validation_failed'],
  handle: async (_, { url }) => {
    readQuery(undefined, url);
    return { status: 200, body: { data } };
  },
});

const OwnPermissions = z
  .object({
    permissions: z
      .array(z.string())
      .describe('The permissions that the key holds, each at least in one container. Sorted.'),
  })
  .meta({ id: 'OwnPermissions' });

export const listOwnPermissions = readEndpoint({
  name: 'listOwnPermissions',
  operation: 'permission.read',
  tag: 'Reference',
  summary: 'List the permissions of your key',
  description:
    'Returns the permissions of the key that sends the request. Every valid key may ask, so that a client can find out which requests would be denied without sending them. Containers and transforms are left out.',
  replies: {
    200: reply('The permissions of the key.', OwnPermissions, {
      permissions: ['token:create', 'token:read'],
    }),
  },
  handle: async ({ principal }) => {
    const permissions = [...principal.policy.granted].filter((name) => holds(principal, name)).sort();
    return { status: 200, body: { permissions } };
  },
});
