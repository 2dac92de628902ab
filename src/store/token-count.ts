/** Counts the tokens of a container by the containers below it, in bounded steps. */
import { type Awaitable, then } from '../domain/awaitable.ts';
import { notExpired } from './applications.ts';
import { maxId } from './bounded-list.ts';
import type { Executor } from './engine/db.ts';
import type { TokenCountScan, TokenCounts } from './store.ts';

interface Row {
  seq: string;
  /** Null if the token has expired. */
  container: string | null;
}

const columns = `t.seq, case when ${notExpired('t')} then t.container_folded end as container`;
const everywhere = `select ${columns} from tokens t where t.tenant_id = $1 and t.seq < $2 order by t.seq desc limit $3`;
/** The index separates the tokens of the container itself (own = 1) from the tokens below it (own = 0). */
const inContainer = `select ${columns} from token_containers i
  join tokens t on t.tenant_id = i.tenant_id and t.seq = i.seq
  where i.tenant_id = $1 and i.seq < $2 and i.container = $4 and i.own = $5 order by i.seq desc limit $3`;

/** `start` and `next` are positions: `own`, and the lowest seq that was counted. */
export function countTokens(
  db: Pick<Executor, 'all'>,
  tenant: string,
  { container, limit, start = `1 ${maxId}` }: TokenCountScan,
): Awaitable<TokenCounts> {
  const [own, before] = start.split(' ') as [string, string];
  const isRoot = container === '/';
  const rows = isRoot
    ? db.all<Row>(everywhere, [tenant, before, limit])
    : db.all<Row>(inContainer, [tenant, before, limit, container, Number(own)]);
  return then(rows, (found) => {
    const counts = new Map<string, number>();
    for (const { container } of found)
      if (container !== null) counts.set(container, (counts.get(container) ?? 0) + 1);
    const last = found.length === limit ? found.at(-1)?.seq : undefined;
    const below = isRoot || own === '0' ? undefined : `0 ${maxId}`;
    return { counts, next: last === undefined ? below : `${own} ${last}` };
  });
}
