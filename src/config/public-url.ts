/** Parses `SALLYPORT_PUBLIC_URL`. The result has no slash at the end. */
export function parsePublicUrl(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  if (/^https?:\/\/[^\s?#@]+$/.test(text) && URL.canParse(text)) return text.replace(/\/+$/, '');
  throw new Error('must be an http or https URL without credentials, query and fragment');
}
