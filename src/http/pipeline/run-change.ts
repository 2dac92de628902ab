/** A change happens once, with its audit entry and the answer to remember, or not at all. */
import { then } from '../../domain/awaitable.ts';
import { fail, throwIfInvalid } from '../../domain/error.ts';
import type { Principal } from '../../domain/principal.ts';
import type { Repeatable, StoreTransaction } from '../../store/store.ts';
import { auditContext } from './audit-context.ts';
import type { RequestInfo } from './request-info.ts';
import {
  type Call,
  type ChangeRoute,
  type HandlerContext,
  isRepeatable,
  operationOf,
  type Reply,
  type Route,
} from './route.ts';

const replayed = { 'Idempotency-Replayed': 'true' };

export async function runChange(
  route: ChangeRoute,
  call: Call<unknown, unknown, unknown>,
  repeat: Repeatable | undefined,
  where: RequestInfo,
  context: HandlerContext,
): Promise<Reply> {
  const { principal } = call;
  const tenant = principal.tenantId;
  const make = (tx: StoreTransaction) =>
    then(route.handle(call, contextOf(tx, context)), ({ entity, difference, kept, ...reply }) => {
      const what = { operation: operationOf(route), entity, ...(difference && { difference }) };
      tx.record({ ...auditContext(principal, where), ...what, result: 'success' });
      return { reply, kept: kept ?? reply };
    });
  const entity = (call.params as { id?: string } | undefined)?.id ?? Symbol('new');
  if (!repeat) return (await context.store.change(tenant, make, entity)).reply;

  const once = () =>
    context.store.change(
      tenant,
      async (tx) => {
        const earlier = await tx.idempotency.recall(tenant, repeat);
        if (earlier) {
          const inside = contextOf(tx, context);
          const reply = route.replay ? await route.replay(earlier, call, inside) : (earlier as Reply);
          return { ...reply, headers: replayed };
        }
        const { reply, kept } = await make(tx);
        await tx.idempotency.remember(tenant, repeat, kept, principal.now);
        return reply;
      },
      entity,
    );
  return alone(context, `${tenant} ${repeat.caller} ${repeat.key}`, once);
}

function contextOf(tx: StoreTransaction, context: HandlerContext): HandlerContext<StoreTransaction> {
  return { ...context, store: tx };
}

/** Refuses a second request with the same idempotency key while the first is in progress on this process. */
async function alone<T>({ underWay }: HandlerContext, name: string, work: () => Promise<T>): Promise<T> {
  if (underWay.has(name)) throw fail('idempotency_running');
  underWay.add(name);
  try {
    return await work();
  } finally {
    underWay.delete(name);
  }
}

const header = 'idempotency-key';

/** The request as something that may be sent again, however its path is written, if its sender gave it a name. */
export function repeatable(
  route: Route,
  { principal, params }: Call<unknown, unknown, unknown>,
  { headers }: Request,
  text: string,
): Repeatable | undefined {
  const key = isRepeatable(route) ? headers.get(header) : null;
  if (key === null) return undefined;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throwIfInvalid({ [header]: ['must have 1 to 255 visible ASCII characters'] });
  }
  const caller = principal.kind === 'session' ? principal.sessionId : principal.applicationId;
  const subject = `${route.method} ${route.path} ${JSON.stringify(params)}`;
  return { caller, key, request: `${subject}\n${rights(route, principal)}\n${text}` };
}

/**
 * What an answer may show hangs on what its caller may do, so it is remembered for the same rights alone. Not so
 * for a PUT: it shows no secret, and may well have changed the rights of its caller.
 */
function rights({ method }: Route, { policy, ceiling }: Principal): string {
  return method === 'PUT' ? '' : JSON.stringify([policy.grants, ceiling?.grants]);
}
