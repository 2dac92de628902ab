/** Clients for the audit log, request counts and access reviews. */
import type { AccessEntry, AdviceEntry, LogEntry, ReportCreate } from './api.ts';
import { paginate, type Query, ResourceClient } from './resource-client.ts';
import type { RequestOptions } from './transport.ts';

export class Logs extends ResourceClient {
  /** Returns one page of audit entries, newest first. With `after`, they are oldest first. */
  list(query: Query<'listLogs'> = {}, options?: RequestOptions) {
    return this.transport.call('listLogs', { query }, options);
  }
  /** Counts audit entries by result and time. */
  counts(query: Query<'countLogs'> = {}, options?: RequestOptions) {
    return this.transport.call('countLogs', { query }, options);
  }
  /** Iterates over all matching audit entries, newest first. With `after`, they are oldest first. */
  all(query: Query<'listLogs'> = {}, options?: RequestOptions): AsyncGenerator<LogEntry, void, undefined> {
    const { after } = query;
    const fetch = ({ start, ...page }: Query<'listLogs'>) => {
      const cursor = after === undefined ? { start } : { after: start ?? after };
      return this.list({ ...page, ...cursor } as Query<'listLogs'>, options);
    };
    return paginate(fetch, { size: 100, ...query });
  }
}

export class Requests extends ResourceClient {
  /** Counts authenticated requests and denials by time, with response times. */
  counts(query: Query<'countRequests'> = {}, options?: RequestOptions) {
    return this.transport.call('countRequests', { query }, options);
  }
}

export class Access extends ResourceClient {
  /** Signs the hashes of the files of an access report. */
  createReport(body: ReportCreate, options?: RequestOptions) {
    return this.transport.call('createReport', { body }, options);
  }
  /** Returns one page of proposals for smaller grants, based on recorded uses. */
  advise(query: Query<'adviseAccess'> = {}, options?: RequestOptions) {
    return this.transport.call('adviseAccess', { query }, options);
  }
  /** Iterates over the proposals for all applications. */
  adviceOnAll(
    query: Query<'adviseAccess'> = {},
    options?: RequestOptions,
  ): AsyncGenerator<AdviceEntry, void, undefined> {
    return paginate((page: Query<'adviseAccess'> & { page?: number }) => this.advise(page, options), {
      size: 100,
      ...query,
    });
  }
  /** Returns who gained and lost access between two times. */
  diff(query: Query<'diffAccess'> & { from: string }, options?: RequestOptions) {
    return this.transport.call('diffAccess', { query }, options);
  }
  /** Returns one page of the applications and sessions with access to a container or token, riskiest first. */
  who(query: Query<'whoHasAccess'>, options?: RequestOptions) {
    return this.transport.call('whoHasAccess', { query }, options);
  }
  /** Iterates over all applications and sessions with access, riskiest first. */
  everyone(
    query: Query<'whoHasAccess'>,
    options?: RequestOptions,
  ): AsyncGenerator<AccessEntry, void, undefined> {
    return paginate((page: Query<'whoHasAccess'>) => this.who(page, options), { size: 100, ...query });
  }
}
