/** The URL under which clients reach the service. */
import { throwIfInvalid } from '../../domain/error.ts';

/** The configured URL, or else the origin of a request. Throws `validation_failed` if its Host header is invalid. */
export function baseUrl(publicUrl: string | undefined, request: Request): string {
  if (publicUrl !== undefined) return publicUrl;
  if (!URL.canParse(request.url)) throwIfInvalid({ host: ['must be a valid host'] });
  return new URL(request.url).origin;
}
