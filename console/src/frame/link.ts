/** The link that a first start prints in a terminal. What it carries leaves the address bar at once. */
export async function keyOfLink(): Promise<string | undefined> {
  const text = location.hash.slice(1);
  if (!/^slp_mgt_[0-9A-Za-z]{49}$/.test(text)) return undefined;
  history.replaceState(null, '', location.pathname);
  return text;
}
