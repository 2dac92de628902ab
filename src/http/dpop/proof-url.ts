/** Compares the URL in a proof with the URL of a request. */

/** Whether both are the same http or https URL, without query and fragment, after normalization (RFC 3986). */
export function sameUrl(one: string, other: string): boolean {
  const normalized = normalize(other);
  return normalized !== undefined && normalize(one) === normalized;
}

/** Returns undefined if the text is not an absolute http or https URL, or has credentials. */
function normalize(text: string): string | undefined {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') return undefined;
  return url.origin + url.pathname.replace(/%[0-9a-f]{2}/gi, normalizeEscape);
}

/** Percent-encoded unreserved characters equal the characters themselves. */
function normalizeEscape(encoded: string): string {
  const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16));
  return /[A-Za-z0-9._~-]/.test(character) ? character : encoded.toUpperCase();
}
