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
