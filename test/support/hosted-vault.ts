/** A vault with the API of hosted ones: another key header, `containers` as a list, page numbers and no cursor. */
import { closeLater } from './cleanup.ts';

export interface HostedVault {
  readonly url: string;
  readonly applications: Record<string, unknown>[];
  readonly tokens: Record<string, unknown>[];
  /** Responses to the next requests, in this order, instead of the usual ones. */
  readonly responses: Response[];
  close(): Promise<void>;
}

export const hostedKey = 'key_of_the_vault';
export const hostedHeader = 'X-VAULT-KEY';

export function openHostedVault(): HostedVault {
  const applications: HostedVault['applications'] = [];
  const tokens: HostedVault['tokens'] = [];
  const responses: Response[] = [];
  const reader = {
    id: 'reader',
    rules: [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:use'] }],
  };
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => {
      const { pathname, searchParams } = new URL(request.url);
      const response = responses.shift();
      if (response) return response;
      if (request.headers.get(hostedHeader) !== hostedKey) return new Response('', { status: 401 });
      if (pathname === '/applications/key') return Response.json(reader);
      const all = { '/applications': applications, '/tokens': tokens }[pathname];
      if (!all) return new Response('', { status: 404 });
      const [page, size] = [Number(searchParams.get('page') ?? 1), Number(searchParams.get('size') ?? 20)];
      const pagination = {
        total_items: all.length,
        page_number: page,
        page_size: size,
        total_pages: Math.ceil(all.length / size),
      };
      return Response.json({ pagination, data: all.slice((page - 1) * size, page * size) });
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    applications,
    tokens,
    responses,
    close: closeLater(() => server.stop(true)),
  };
}
