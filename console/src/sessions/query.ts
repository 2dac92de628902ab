/** Loads the sessions that match the filters in the URL. */
import type { Session } from '../../../sdk/src/sallyport.ts';
import { useLoad } from '../frame/load.ts';
import { useSignedIn } from '../frame/signed-in.ts';

export type StateFilter = 'all' | Session['state'];

export interface SessionQuery {
  readonly state: StateFilter;
  readonly container: string;
  readonly application: string;
  readonly authorizer: string;
  readonly subject: string;
  /** Empty, or the id of one session. */
  readonly id: string;
}

const pageSize = 100;
/** Limits the pages that are read. A page may be empty although the list continues. */
const maxPages = 10;

export function useSessions(query: SessionQuery, limit: number) {
  const { state, container, application, authorizer, subject, id } = query;
  const { api } = useSignedIn();
  const filter = {
    ...(state !== 'all' && { state }),
    ...(container !== '' && { container }),
    ...(id !== '' && { id: [id] }),
    ...(application !== '' && { application_id: application }),
    ...(authorizer !== '' && { authorized_by: authorizer }),
    ...(subject !== '' && { subject }),
  };
  return useLoad(`sessions ${JSON.stringify(filter)} ${limit}`, async (signal) => {
    const sessions: Session[] = [];
    let start: string | undefined;
    let total: number | undefined;
    for (let page = 0; page < maxPages && sessions.length < limit; page++) {
      const position = start === undefined ? {} : { start };
      const { data, pagination } = await api.sessions.list(
        { ...filter, size: pageSize, ...position },
        { signal },
      );
      if (page === 0) total = pagination.total_items;
      sessions.push(...data);
      start = pagination.next;
      if (start === undefined) break;
    }
    return { sessions, total, more: start !== undefined };
  });
}
