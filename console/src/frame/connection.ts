/**
 * Sends the requests of the console. Requests that the key may not make are answered here instead of by the service, so
 * that opening a page causes no denials in the audit log. Reads of tokens ask for masked data at most, so that no page
 * discloses any. Knows since when the service has not answered.
 */
import { useCallback, useSyncExternalStore } from 'react';
import { operations, requiredPermissions } from '../../../sdk/src/api.ts';

/** Every operation of the API: its method, its path, and the permission that it needs, if any. */
const required = Object.entries(operations).map(([name, [method, path]]) => ({
  method,
  path: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`),
  permission: requiredPermissions[name as keyof typeof operations],
}));

export function requiredPermission(method: string, path: string): string | undefined {
  return required.find((one) => one.method === method && one.path.test(path))?.permission;
}

/** Statuses with which the service, or a proxy in front of it, says that it cannot answer. */
const unavailable = [502, 503, 504];
/** Milliseconds between two checks of a page that sends no requests itself. */
export const checkInterval = 10_000;

export class Connection {
  readonly #lost: () => void;
  readonly #listeners = new Set<() => void>();
  #held: ReadonlySet<string> | undefined;
  #answeredAt = Date.now();
  #isLost = false;

  /** `lost` is called if the key is no longer valid. */
  constructor(lost: () => void) {
    this.#lost = lost;
  }

  /** From now on, requests that need other permissions are not sent, and a 401 means that the key was lost. */
  limitTo(permissions: readonly string[]): void {
    this.#held = new Set(permissions);
  }

  readonly fetch = async (...[input, init]: Parameters<typeof fetch>): Promise<Response> => {
    const url = new URL(String(input), location.origin);
    const permission = requiredPermission(init?.method ?? 'GET', url.pathname.replace(/^\/console\/api/, ''));
    const missing = this.#missing(permission, url);
    if (missing !== undefined) return deniedLocally(missing);
    if (permission === 'token:read' && !url.searchParams.has('transform'))
      url.searchParams.set('transform', 'mask');
    try {
      const response = await fetch(url, init);
      this.#set(unavailable.includes(response.status));
      if (response.status === 401 && this.#held) this.#lost();
      return response;
    } catch (error) {
      if (!init?.signal?.aborted) this.#set(true);
      throw error;
    }
  };

  /** Asks the service whether it can answer. */
  readonly check = (): void => {
    this.fetch('/readyz', { cache: 'no-store', signal: AbortSignal.timeout(checkInterval) }).catch(
      (error) => {
        if (error instanceof DOMException && error.name === 'TimeoutError') this.#set(true);
      },
    );
  };

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** The time of the last answer, if the service does not answer now. */
  readonly staleSince = (): number | undefined => (this.#isLost ? this.#answeredAt : undefined);

  #missing(permission: string | undefined, { searchParams }: URL): string | undefined {
    if (!this.#held) return undefined;
    const permissions = [permission];
    if (searchParams.has('dry_run')) permissions.push('access:review');
    return permissions.find((name) => name !== undefined && !this.#held?.has(name));
  }

  #set(isLost: boolean): void {
    if (!isLost) this.#answeredAt = Date.now();
    if (isLost === this.#isLost) return;
    this.#isLost = isLost;
    for (const listener of this.#listeners) listener();
    // Pages that wait for the connection listen to this event of the browser.
    if (!isLost) dispatchEvent(new Event('online'));
  }
}

/** The response of the service to a key without the permission. */
function deniedLocally(permission: string): Response {
  const problem = {
    type: 'about:blank',
    title: 'Permission missing',
    status: 403,
    detail: `This key lacks ${permission}.`,
    code: 'permission_missing',
    request_id: '',
  };
  const headers = { 'Content-Type': 'application/problem+json' };
  return new Response(JSON.stringify(problem), { status: 403, headers });
}

export function useStaleSince({ subscribe, staleSince }: Connection): number | undefined {
  return useSyncExternalStore(subscribe, useCallback(staleSince, [staleSince]));
}
