import { createPrivateKey, X509Certificate } from 'node:crypto';
import { z } from 'zod';
import { type Difference, difference } from '../../domain/audit.ts';
import { Id, NameFilter, originalIndex, Text } from '../../domain/common-fields.ts';
import {
  type Destination,
  DestinationCreate,
  DestinationUpdate,
  Destination as DestinationView,
  headerConflicts,
  ListedRequest,
  maxDestinations,
  readOnlyErrors,
  splitCertificate,
  timeoutErrors,
} from '../../domain/destination.ts';
import { type Errors, fail, orNotFound, throwIfInvalid } from '../../domain/error.ts';
import { newId, Secret } from '../../domain/key.ts';
import type { Resource } from '../../domain/policy.ts';
import { changeBy, usableDestinations } from '../../domain/principal.ts';
import { versionOf } from '../../domain/row-version.ts';
import type { Rule } from '../../domain/rule.ts';
import { TokenId } from '../../domain/token.ts';
import type { DestinationSecrets, Store, StoredDestination, StoreTransaction } from '../../store/store.ts';
import { etag } from '../pipeline/etag.ts';
import { listQuery, oneOrMore, pageOf, pageText, paginate } from '../pipeline/pagination.ts';
import { changeEndpoint, readEndpoint, reply } from '../pipeline/route.ts';
import { example, onePage } from '../reference/examples.ts';

const tag = 'Destinations';
const params = z.object({
  id: Id.meta({ description: 'The id of the destination.', examples: [example.destination.id] }),
});
const destinationDocs = reply('The destination.', DestinationView, example.destination);

export const createDestination = changeEndpoint({
  name: 'createDestination',
  tag,
  summary: 'Create a destination',
  description:
    'Creates a destination. Callers can use tokens there if a rule grants them `token:use` with its id. The values of `headers` and the private key are stored encrypted and never returned.',
  body: DestinationCreate,
  bodyExample: example.destinationCreate,
  replies: { 201: reply('The new destination.', DestinationView, example.destination) },
  failures: ['destination_exists', 'too_many_destinations'],
  etag: 'sent',
  entityOf: ({ principal }) => `destinations of ${principal.tenantId}`,
  handle: async ({ principal, body }, { store }) => {
    const fields = { ...changedFields(body, undefined), origin: body.origin };
    const id = newId(principal.now);
    const change = changeBy(principal);
    const created = await store.destinations.create(principal.tenantId, id, fields, change, maxDestinations);
    if (created === 'too_many') throw fail('too_many_destinations');
    if (created === 'name_taken') throw fail('destination_exists');
    const shown = ['name', 'origin', 'requests', 'header_names', ...settings] as const;
    const difference = Object.fromEntries(
      shown.map((field) => [field, { to: created[field] }]),
    ) as Difference;
    return { ...destinationReply(created, 201), entity: entityOf(id), difference };
  },
});

const settings = ['timeout', 'max_in_flight', 'ignored_headers'] as const;

const ListQuery = listQuery({
  id: oneOrMore(Id, { type: 'string', format: 'uuid' }),
  name: NameFilter.optional().describe('Filter by a part of the name. Ignores case.'),
});

export const listDestinations = readEndpoint({
  name: 'listDestinations',
  tag,
  summary: 'List destinations',
  description: 'Returns the destinations of your tenant, newest first.',
  query: ListQuery,
  replies: { 200: reply('A page of destinations.', pageOf(DestinationView), example.destinationPage) },
  handle: async (call, { store, longWork, memory }) => {
    const { principal, query } = call;
    const filter = { ids: query.id, name: query.name };
    const page = await paginate(query, memory.reserverFor(call), (window) =>
      store.destinations.list(principal.tenantId, filter, window),
    );
    return { status: 200, body: await longWork.run(principal, pageText(page)) };
  },
});

const Usable = z
  .object({
    name: Text.describe('Name in the path `/proxy/NAME/…`.'),
    origin: Text.describe('`https://host[:port]`.'),
    requests: z.array(ListedRequest).describe('The requests that you can send.'),
    ignored_headers: z.array(z.string()).describe('Headers that are dropped. Others must be listed.'),
  })
  .meta({ id: 'UsableDestination' });
const usable = ({ name, origin, requests, ignored_headers }: Destination) => ({
  ...{ name, origin, requests, ignored_headers },
});

export const listUsableDestinations = readEndpoint({
  name: 'listUsableDestinations',
  tag,
  summary: 'List the destinations that your key can use',
  description:
    'Returns the destinations that a rule of your key names, newest first, with what you need to send their requests. A request with tokens also needs a rule for each token. Spends no use of a delegation.',
  query: listQuery({ name: NameFilter.optional().describe('Filter by a part of the name. Ignores case.') }),
  replies: {
    200: reply(
      'A page of destinations.',
      pageOf(Usable),
      onePage(usable(example.destination as Destination)),
    ),
  },
  failures: ['quarantined'],
  spendsNoUse: true,
  handle: async (call, { store, longWork, memory }) => {
    const { principal, query } = call;
    const filter = { ids: [...usableDestinations(principal)], name: query.name };
    const page = await paginate(query, memory.reserverFor(call), (window) =>
      store.destinations.list(principal.tenantId, filter, window),
    );
    return {
      status: 200,
      body: await longWork.run(principal, pageText({ ...page, data: page.data.map(usable) })),
    };
  },
});

export const getDestination = readEndpoint({
  name: 'getDestination',
  tag,
  summary: 'Get a destination',
  params,
  replies: { 200: destinationDocs },
  failures: ['not_found'],
  etag: 'sent',
  handle: async ({ principal, params }, { store }) =>
    destinationReply(orNotFound(await store.destinations.get(principal.tenantId, params.id))),
});

export const updateDestination = changeEndpoint({
  name: 'updateDestination',
  tag,
  summary: 'Update a destination',
  description:
    'Replaces all fields except `origin`. Without `headers`, the stored headers do not change; `{}` removes them. A `client_certificate` without a private key uses the stored key, if the certificate is unchanged. You can send read-only fields back unchanged.',
  params,
  body: DestinationUpdate,
  bodyExample: example.destinationUpdate,
  replies: { 200: destinationDocs },
  failures: ['not_found', 'destination_exists'],
  etag: 'both',
  handle: async ({ principal, params, body, requireMatch }, { store }) => {
    let before: Destination | undefined;
    const revise = (current: StoredDestination) => {
      before = current;
      requireMatch(versionOf(current));
      throwIfInvalid(readOnlyErrors(current, body));
      return changedFields(body, current);
    };
    const updated = orNotFound(
      await store.destinations.update(principal.tenantId, params.id, changeBy(principal), revise),
    );
    if (updated === 'name_taken') throw fail('destination_exists');
    const fields = ['name', 'requests', 'header_names', 'client_certificate', 'ca', ...settings] as const;
    return {
      ...destinationReply(updated),
      entity: entityOf(params.id),
      // Values of headers are secret, so the entry says only that they were sent.
      difference: {
        ...(body.headers && { headers: {} }),
        ...difference(orNotFound(before), updated, fields),
      },
    };
  },
});

export const deleteDestination = changeEndpoint({
  name: 'deleteDestination',
  tag,
  summary: 'Delete a destination',
  description:
    'Deletes a destination immediately. Rules that contain its id then match nothing, also if a destination with the same name is created again.',
  params,
  replies: { 204: { description: 'Deleted.' } },
  failures: ['not_found'],
  etag: 'checked',
  urgency: 'takes access away',
  handle: async ({ principal, params, requireMatch }, { store }) => {
    const check = (current: Destination) => requireMatch(versionOf(current));
    const { name, origin } = orNotFound(
      await store.destinations.delete(principal.tenantId, params.id, check),
    );
    return {
      status: 204,
      entity: entityOf(params.id),
      difference: { name: { from: name }, origin: { from: origin } },
    };
  },
});

export const allowUse = changeEndpoint({
  name: 'allowUse',
  tag,
  summary: 'Allow the use of a token again',
  description:
    'The first reply of a destination that repeats the data of a token stops its use there by this application: an echo answers guesses. This allows it again, and changes nothing if the use is not stopped.',
  params: params.extend({
    token_id: TokenId.meta({ description: 'The id of the token.', examples: ['card-42'] }),
  }),
  query: z.strictObject({
    application: Id.meta({ description: 'The id of the application.', examples: [example.application.id] }),
  }),
  replies: { 204: { description: 'Allowed.' } },
  failures: ['not_found'],
  handle: async ({ principal, params, query }, { store }) => {
    const { id, token_id: token } = params;
    const { application } = query;
    const wasStopped = await store.destinations.allow(principal.tenantId, id, application, token);
    if (wasStopped === undefined) throw fail('not_found');
    const difference: Difference = wasStopped ? { stops: { from: { token, application } } } : {};
    return { status: 204, entity: entityOf(id), difference };
  },
});

/** Replaces the name of a destination by its id. A destination that does not exist is left out, so no rule matches. */
export async function withDestinations<R extends Resource>(
  store: Pick<Store, 'destinations'>,
  tenant: string,
  resources: readonly R[],
): Promise<readonly R[]> {
  const references = [...new Set(resources.flatMap(({ destination = [] }) => destination))];
  if (references.length === 0) return resources;
  const ids = await store.destinations.locate(tenant, references);
  return resources.map((resource) => ({ ...resource, destination: ids.get(resource.destination ?? '') }));
}

/**
 * The rules with ids of destinations instead of names. An id need not exist: a rule with a deleted destination can be
 * sent back unchanged. Throws `validation_failed` for a name that does not exist.
 */
export async function withDestinationIds(
  store: Pick<StoreTransaction, 'destinations'>,
  tenant: string,
  rules: readonly Rule[],
): Promise<Rule[]> {
  const isName = (reference: string) => !Id.safeParse(reference).success;
  const names = rules.flatMap(({ destinations = [] }) => destinations.filter(isName));
  if (names.length === 0) return [...rules];
  const ids = await store.destinations.locate(tenant, [...new Set(names)]);
  const errors: Errors = {};
  const replaced = rules.map((rule, index) => {
    if (!rule.destinations) return rule;
    const found = rule.destinations.map((reference, at) => {
      if (!isName(reference)) return reference;
      const path = `rules.${originalIndex(rules, index)}.destinations.${originalIndex(rule.destinations ?? [], at)}`;
      if (!ids.has(reference)) errors[path] = ['is not the name of a destination'];
      return ids.get(reference) as string;
    });
    return { ...rule, destinations: [...new Set(found)] };
  });
  throwIfInvalid(errors);
  return replaced;
}

function entityOf(id: string) {
  return { kind: 'destination', id };
}

function destinationReply({ secrets: _, hasStops: __, ...destination }: StoredDestination, status = 200) {
  return { status, body: destination, headers: etag(versionOf(destination)) };
}

/** The fields after a request. `current` is undefined for a new destination. */
function changedFields(
  { headers, client_certificate, ...fields }: DestinationCreate | DestinationUpdate,
  current: StoredDestination | undefined,
) {
  const old: DestinationSecrets = current?.secrets() ?? { headers: {}, privateKey: undefined };
  const added = headers
    ? Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, new Secret(value)]))
    : old.headers;
  const given = client_certificate === undefined ? undefined : splitCertificate(client_certificate);
  const isKept = given && !given.key && given.certificate === current?.client_certificate;
  const privateKey = isKept ? old.privateKey : given?.key === undefined ? undefined : new Secret(given.key);
  throwIfInvalid({
    ...timeoutErrors(fields),
    ...headerConflicts(fields.requests, Object.keys(added)),
    ...(given && certificateErrors(given.certificate, privateKey)),
    ...(fields.ca !== undefined && authorityErrors(fields.ca)),
  });
  const secrets = { headers: added, privateKey };
  return { ...fields, certificate: given?.certificate, secrets };
}

function certificateErrors(certificate: string, privateKey: Secret | undefined): Errors {
  const field = 'client_certificate';
  if (!privateKey) return { [field]: ['must contain the private key of the certificate'] };
  try {
    const leaf = new X509Certificate(certificate);
    if (leaf.checkPrivateKey(createPrivateKey(privateKey.reveal()))) return {};
    return { [field]: ['has a private key that does not belong to the first certificate'] };
  } catch {
    return { [field]: ['has a certificate or a private key that cannot be read'] };
  }
}

function authorityErrors(ca: string): Errors {
  try {
    for (const [block] of ca.matchAll(/-----BEGIN[\s\S]+?-----END CERTIFICATE-----/g))
      new X509Certificate(block);
    return {};
  } catch {
    return { ca: ['has a certificate that cannot be read'] };
  }
}
