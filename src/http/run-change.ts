/** Commits a change, its audit entry and its idempotency record in one transaction. */
import { entryOf } from '../audit/trail.ts';
import { fail, throwIfInvalid } from '../domain/error.ts';
import { identityOf, ownerOf } from '../domain/principal.ts';
import type { IdempotentRequest, StoreTransaction } from '../store/store.ts';
import { isLimited, spendUse } from './admit.ts';
import { disclosureEvents } from './pipeline/disclosures.ts';
import {
  type Call,
  type ChangeRoute,
  type HandlerContext,
  operationOf,
  type Reply,
  takesIdempotencyKey,
} from './pipeline/route.ts';

const disconnected = 'The connection was closed before the change began, so it was not made.';

/**
 * The entry also records the token data in the reply. A replay writes no entry here: it returns `disclosures`, for which
 * an entry is written before the response.
 */
export async function runChange(
  route: ChangeRoute,
  call: Call,
  request: Request,
  context: HandlerContext,
): Promise<Reply> {
  const { principal, params, requestInfo } = call;
  const tenant = principal.tenantId;
  const idempotency = idempotencyOf(route, call, request.headers);

  async function inTransaction(tx: StoreTransaction): Promise<Reply> {
    // Bun closes the connection if the client sends another request before the response to this one.
    if (request.signal.aborted) throw fail('validation_failed', { detail: disconnected });
    // First, so that all transactions lock the delegation before other rows.
    if (isLimited(principal)) await spendUse(principal, tx);
    const changeContext = { ...context, store: tx };
    const earlier = idempotency && (await tx.idempotency.find(tenant, idempotency));
    if (earlier) {
      const reply = route.replay ? await route.replay(earlier, call, changeContext) : (earlier as Reply);
      return { ...reply, isReplay: true, headers: { ...reply.headers, 'Idempotency-Replayed': 'true' } };
    }
    const handled = await route.handle(call, changeContext);
    for (const change of handled.entries ?? [handled]) {
      const { operation = operationOf(route), entity, search, resource, disclosures, difference } = change;
      const by = { caller: principal, client: requestInfo, operation };
      const changed = { entity, search, resource, disclosure: disclosures?.[0], difference };
      tx.record(entryOf({ kind: 'change', ...by, ...changed }));
    }
    const { idempotencyRecord, status, body, headers } = handled;
    const reply = { status, body, ...(headers && { headers }) };
    if (idempotency) {
      const quota = route.urgency ? undefined : context.storageQuota;
      await tx.idempotency.save(tenant, idempotency, idempotencyRecord ?? reply, principal.now, quota);
    }
    return reply;
  }

  // Changes of the same entity run one after the other.
  const entity = (params as { id?: string } | undefined)?.id ?? route.entityOf?.(call) ?? Symbol('new');
  const commit = () =>
    context.store.change(
      tenant,
      inTransaction,
      entity,
      route.urgency === 'takes access away' ? 'essential' : route.isAlone ? 'alone' : undefined,
    );
  try {
    if (route.prepare) call.prepared = await context.longWork.run(principal, route.prepare(call, context));
    if (route.find) call.prepared = await route.find(call, context);
    if (!idempotency) return await commit();
    return await excludeConcurrent(context.idempotentRequests, tenant, idempotency, commit);
  } catch (error) {
    const { examined } = call;
    if (examined)
      await context.trail.record(disclosureEvents(examined.operation, examined, principal, requestInfo)); // 503
    throw error;
  }
}
const idempotencyHeader = 'idempotency-key';

/** Returns undefined if the request has no idempotency key. Throws `validation_failed` if the key is invalid. */
function idempotencyOf(
  route: ChangeRoute,
  { principal, params, bodyText }: Call,
  headers: Headers,
): IdempotentRequest | undefined {
  const key = takesIdempotencyKey(route) ? headers.get(idempotencyHeader) : null;
  if (key === null) return undefined;
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throwIfInvalid({ [idempotencyHeader]: ['must have 1 to 255 visible ASCII characters'] });
  const target = `${route.method} ${route.path} ${JSON.stringify(params)}`;
  // A reply depends on the caller's grants, so a retry with other grants does not get the stored reply. A PUT is an
  // exception: its reply contains no secret, and it may have changed the caller's own grants.
  const { policy, ceiling } = principal;
  const person =
    principal.kind === 'application' && principal.person ? [principal.person.subject, principal.issuer] : [];
  const sameKey = route.retries === 'same key' ? [principal.authority?.keyId] : [];
  const grants =
    route.method === 'PUT' ? '' : JSON.stringify([policy.grants, ceiling?.grants, ...person, ...sameKey]);
  const { applicationId: application } = principal;
  const sent = `${target}\n${grants}\n${bodyText}`;
  // Nothing tells apart the browsers that share a public key: only an equal request gets the stored reply.
  const space = ownerOf(principal) === 'public' ? `${key}\n${sent}` : key;
  return { caller: identityOf(principal).id, application, key: space, request: sent };
}

/**
 * Throws `idempotency_running` if this process is already handling a request with the same idempotency key. Other
 * processes are excluded by a lock in the database.
 */
async function excludeConcurrent<T>(
  inProgress: Set<string>,
  tenant: string,
  { caller, key }: IdempotentRequest,
  run: () => Promise<T>,
): Promise<T> {
  const name = `${tenant} ${caller} ${key}`;
  if (inProgress.has(name)) throw fail('idempotency_running');
  inProgress.add(name);
  try {
    return await run();
  } finally {
    inProgress.delete(name);
  }
}
