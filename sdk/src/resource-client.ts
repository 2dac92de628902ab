/** The base of the clients of all resources. */
import type { Input, Transport } from './transport.ts';

export type Query<
  O extends
    | 'listApplications'
    | 'listSessions'
    | 'listTokens'
    | 'getToken'
    | 'listDestinations'
    | 'listUsableDestinations'
    | 'listLogs'
    | 'countLogs'
    | 'countRequests'
    | 'whoHasAccess'
    | 'diffAccess'
    | 'adviseAccess',
> = NonNullable<Input<O>['query']>;

export abstract class ResourceClient {
  protected readonly transport: Transport;
  constructor(transport: Transport) {
    this.transport = transport;
  }
}

interface Page<T> {
  readonly pagination: { readonly next?: string };
  readonly data: T[];
}

/** Yields every item, and fetches the next page when it is needed. */
export async function* paginate<T, Q extends { start?: string; page?: number }>(
  fetch: (query: Q) => Promise<Page<T>>,
  query: Q,
): AsyncGenerator<T, void, undefined> {
  let { data, pagination } = await fetch(query);
  yield* data;
  while (pagination.next !== undefined) {
    const { page: _, ...rest } = query;
    ({ data, pagination } = await fetch({ ...(rest as Q), start: pagination.next }));
    yield* data;
  }
}
