/** Ways to sign in other than entering a key: the printed link, and a provider. */

/** Exchanges the one-time code in the printed sign-in link for a key. Removes the code from the address bar. */
export async function redeemSignInLink(): Promise<string | undefined> {
  const code = location.hash.slice(1);
  if (!/^slp_non_[0-9A-Za-z]{55}$/.test(code)) return undefined;
  history.replaceState(null, '', location.pathname);
  const response = await fetch('/console/link', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ code }),
  });
  if (response.ok) return ((await response.json()) as { key: string }).key;
  throw new Error('This link has expired. It works once, within ten minutes. Sign in with the key.');
}

export interface Person {
  readonly subject: string;
  readonly name?: string;
  readonly email?: string;
}

/** How people can sign in, and who has signed in by name in this browser. */
export interface ConsoleSession {
  readonly providers: readonly { readonly number: number; readonly name: string }[];
  readonly keys: boolean;
  readonly person?: Person;
}

const onlyKeys: ConsoleSession = { providers: [], keys: true };

/** Browsers do not send `Sec-Fetch-Site` over plain HTTP, so that the service refuses this request there. */
export async function readSession(): Promise<ConsoleSession> {
  const response = await fetch('/console/api/session').catch(() => undefined);
  return response?.ok ? ((await response.json()) as ConsoleSession) : onlyKeys;
}

const placeName = 'sallyport.place';

/** Goes to the provider. Remembers the page for `returnFromProvider`. */
export function goToProvider(number: number): void {
  const tenant = new URLSearchParams(location.search).get('tenant');
  sessionStorage.setItem(placeName, (tenant ? `?tenant=${encodeURIComponent(tenant)}` : '') + location.hash);
  const query = new URLSearchParams({ provider: String(number), ...(tenant && { tenant }) });
  location.assign(`/console/api/sign-in?${query}`);
}

const outcomes: Readonly<Record<string, string>> = {
  failed: 'The sign-in did not succeed. Try again. The audit log says why.',
  refused: 'Your account cannot sign in here: no application accepts it. Ask an administrator.',
  tenant: 'This service has several tenants. Open the console with ?tenant= and the tag of yours.',
};

/** Shows the page from which the sign-in began. Returns what went wrong, if something did. */
export function returnFromProvider(): string | undefined {
  const place = sessionStorage.getItem(placeName);
  if (place === null) return undefined;
  sessionStorage.removeItem(placeName);
  const outcome = new URLSearchParams(location.search).get('sign_in');
  history.replaceState(null, '', location.pathname + place);
  return outcome === null ? undefined : outcomes[outcome];
}

export async function signOutPerson(): Promise<void> {
  const response = await fetch('/console/api/sign-out', { method: 'POST', keepalive: true });
  if (!response.ok) throw new Error('You are still signed in: the service did not answer. Try again.');
}
