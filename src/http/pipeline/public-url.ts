/** The URL under which clients reach the service. */
import { throwIfInvalid } from '../../domain/error.ts';

/** Parses `SALLYPORT_PUBLIC_URL`. The result has no slash at the end. */
export function parsePublicUrl(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  if (/^https?:\/\/[^\s?#@]+$/.test(text) && URL.canParse(text)) return text.replace(/\/+$/, '');
  throw new Error('must be an http or https URL without credentials, query and fragment');
}

/** The configured URL, or else the origin of a request. Throws `validation_failed` if its Host header is invalid. */
export function baseUrl(publicUrl: string | undefined, request: Request): string {
  if (publicUrl !== undefined) return publicUrl;
  if (!URL.canParse(request.url)) throwIfInvalid({ host: ['must be a valid host'] });
  return new URL(request.url).origin;
}
