/** More than one key for an Application, so that a new one is in place before the old one goes. */
import { z } from 'zod';
import { ApplicationKey, ApplicationKeyCreated, maxKeys } from '../../domain/application.ts';
import { Id } from '../../domain/common-fields.ts';
import { fail } from '../../domain/error.ts';
import { applicationKinds, mint } from '../../domain/key.ts';
import { denyEscalation } from '../../domain/principal.ts';
import { changeEndpoint, readEndpoint } from '../pipeline/route.ts';
import { example } from '../reference/examples.ts';
import { changeBy, entityOf, params } from './applications.ts';

const tag = 'Applications';

export const createKey = changeEndpoint({
  name: 'createKey',
  operation: 'application.key.create',
  tag,
  summary: 'Add a key to an Application',
  description: `The others go on working, ${maxKeys} at most at once. The reply is the only one that shows the key. The caller must hold the management permissions that the Application has.`,
  params,
  replies: {
    201: { description: 'Made.', schema: ApplicationKeyCreated, example: example.applicationKeyCreated },
  },
  failures: ['grant_not_held', 'not_found', 'too_many_keys'],
  handle: async ({ principal, params }, { store }) => {
    const done = await store.keys.create(
      principal.tenantId,
      params.id,
      changeBy(principal),
      (current, keys) => {
        denyEscalation(principal, current);
        if (keys >= maxKeys) throw fail('too_many_keys');
        return mint(applicationKinds[current.type]);
      },
    );
    if (!done) throw fail('not_found');
    const { made, key } = done;
    return {
      status: 201,
      body: { ...made, key: key.secret.reveal() },
      entity: entityOf(params.id),
      difference: { keys: { to: named(made) } },
    };
  },
});

export const listKeys = readEndpoint({
  name: 'listKeys',
  tag,
  summary: 'List the keys of an Application',
  description: 'Newest first, each by its last four characters.',
  params,
  replies: {
    200: {
      description: 'All of them.',
      schema: z
        .object({ data: z.array(ApplicationKey).describe(`At most ${maxKeys}.`) })
        .meta({ id: 'ApplicationKeys' }),
      example: { data: [example.applicationKey] },
    },
  },
  failures: ['not_found'],
  handle: async ({ principal, params }, { store }) => {
    const data = await store.keys.list(principal.tenantId, params.id);
    if (data.length === 0 && !(await store.applications.get(principal.tenantId, params.id))) {
      throw fail('not_found');
    }
    return { status: 200, body: { data } };
  },
});

export const deleteKey = changeEndpoint({
  name: 'deleteKey',
  operation: 'application.key.delete',
  tag,
  summary: 'Delete a key of an Application',
  description:
    'It is dead for every request sent after the reply, and with it every Session that may do no more than it. The last one may go, too: the Application stays, and can be given another. The caller must hold the management permissions that the Application has.',
  params: params.extend({
    key_id: Id.meta({ description: 'The id of the key.', examples: [example.applicationKey.id] }),
  }),
  replies: { 204: { description: 'Deleted.' } },
  failures: ['grant_not_held', 'not_found'],
  handle: async ({ principal, params }, { store }) => {
    const gone = await store.keys.delete(principal.tenantId, params.id, params.key_id, (current) =>
      denyEscalation(principal, current),
    );
    if (!gone) throw fail('not_found');
    return { status: 204, entity: entityOf(params.id), difference: { keys: { from: named(gone) } } };
  },
});

/** What the audit log calls a key. */
function named({ id, ending }: ApplicationKey) {
  return { id, ending };
}
