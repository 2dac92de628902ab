/** Writes each segment as one object to S3-compatible storage. */
import { createHash } from 'node:crypto';
import { S3Client } from 'bun';
import type { Secret } from '../../domain/key.ts';
import { chainName, systemTenant } from '../records.ts';
import { type Batch, toJsonLines } from './batch.ts';
import { type HttpTarget, send } from './http-client.ts';
import { DeliveryError, type Sender } from './sender.ts';

export interface S3Options extends HttpTarget {
  readonly endpoint: URL;
  readonly region: string;
  readonly bucket: string;
  readonly prefix: string;
  readonly accessKeyId: Secret;
  readonly secretAccessKey: Secret;
  readonly sessionToken?: Secret | undefined;
}

/** Seconds for which a signed request is valid. */
const expiresIn = 300;

/**
 * Bun's S3 client only signs the request. http-client.ts sends it, because Bun's `write` has no timeout and would
 * connect to an unchecked address.
 */
export function s3Sender(options: S3Options): Sender {
  const { endpoint, region, bucket, accessKeyId, secretAccessKey, sessionToken, ...target } = options;
  const client = new S3Client({
    endpoint: endpoint.href,
    region,
    bucket,
    accessKeyId: accessKeyId.reveal(),
    secretAccessKey: secretAccessKey.reveal(),
    ...(sessionToken && { sessionToken: sessionToken.reveal() }),
  });
  return {
    send: async (batch, signal) => {
      const body = toJsonLines(batch);
      const url = new URL(client.presign(objectName(options.prefix, batch), { method: 'PUT', expiresIn }));
      const md5 = createHash('md5').update(body).digest('base64');
      const headers = { 'content-type': 'application/x-ndjson', 'content-md5': md5 };
      const response = await send({ method: 'PUT', url, headers, body }, target, signal);
      if (response.status !== 200) {
        const code = /<Code>(\w{1,64})<\/Code>/.exec(response.body)?.[1];
        throw new DeliveryError(
          `the storage answered with status ${response.status}${code ? ` (${code})` : ''}`,
        );
      }
      // Every S3-compatible service returns an ETag. A proxy or a login page that answers 200 does not.
      if (response.headers.etag === undefined)
        throw new DeliveryError('the response with status 200 has no ETag, so it is not from S3');
      return {};
    },
  };
}

/** Repeated deliveries of the same segment have the same name. Names sort by number. */
export function objectName(prefix: string, { id, tenantId = systemTenant, segment }: Batch): string {
  if (!segment) return `${prefix}test/${id}.jsonl`;
  const number = String(segment.number).padStart(12, '0');
  return `${prefix}${chainName(tenantId)}/${number}-${segment.hash.slice(0, 12)}.jsonl`;
}
