/** Loads tokens that are visible to the signed-in key, filtered by container, type and search text. */
import type { Token } from '../../../sdk/src/sallyport.ts';
import { useLoad } from '../frame/load.ts';
import { useSignedIn } from '../frame/signed-in.ts';

export interface TokenQuery {
  readonly container: string;
  readonly type: string;
  readonly q: string;
}

/** Maximum number of loaded tokens. Choosing a container loads the tokens of that container. */
export const maxTokens = 1000;
const pageSize = 100;
/** Limits the pages that are read. A page may be empty although the list continues. */
const maxPages = 20;

/** `name=value` searches metadata; other text is a token id. */
function parseSearch(text: string): { id?: string[]; metadata?: Record<string, string> } {
  const [, name, value] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (name !== undefined && value !== undefined) return { metadata: { [name.trim()]: value.trim() } };
  return text === '' ? {} : { id: [text] };
}

export function useTokens({ container, type, q }: TokenQuery) {
  const { api } = useSignedIn();
  const filter = {
    ...(container !== '/' && { container }),
    ...(type !== '' && { type }),
    ...parseSearch(q.trim()),
  };
  return useLoad(`tokens ${JSON.stringify(filter)}`, async (signal) => {
    const tokens: Token[] = [];
    let start: string | undefined;
    let total: number | undefined;
    for (let page = 0; page < maxPages && tokens.length < maxTokens; page++) {
      const position = start === undefined ? {} : { start };
      const { data, pagination } = await api.tokens.list(
        { ...filter, ...position, size: pageSize },
        { signal },
      );
      if (page === 0) total = pagination.total_items;
      tokens.push(...data);
      start = pagination.next;
      if (start === undefined) break;
    }
    return { tokens, total, more: start !== undefined };
  });
}
