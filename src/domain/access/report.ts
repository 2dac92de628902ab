/** The manifest of an access report, which the service signs. `accessReport` of the SDK builds the other files. */
import { z } from 'zod';
import { DateTime, Text, Timestamp, Uuid } from '../common-fields.ts';

export const manifestName = 'manifest.json';

const ReportFile = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z][a-z-]{0,40}\.(csv|html|json)$/, 'must be a name such as access.csv')
    .describe('Name of the file, such as `access.csv`.'),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 hash in hexadecimal')
    .describe('Its SHA-256 hash, in hexadecimal.'),
});
const files = z.array(ReportFile).min(1).max(20).describe('The files of the report.');

export const ReportCreate = z
  .strictObject({
    from: DateTime.describe('Start of the period.'),
    to: DateTime.describe('End of the period.'),
    files,
  })
  .meta({ id: 'ReportCreate' });

export const ReportManifest = z
  .object({
    id: Uuid.describe('Unique identifier of the report. It is in the audit log, too.'),
    tenant_id: Uuid.describe('The tenant.'),
    created_by: Uuid.describe('The application whose key created the report.'),
    created_at: Timestamp.describe('When it was created.'),
    from: Timestamp.describe('Start of the period.'),
    to: Timestamp.describe('End of the period.'),
    files,
    anchor: Text.describe('The end of the audit log at that time, as `sallyport audit head` prints it.'),
    signature: Text.describe('Signature of all other fields, made with the key of the audit log.'),
  })
  .meta({ id: 'ReportManifest' });
export type ReportManifest = z.infer<typeof ReportManifest>;

/** The text that the signature covers. */
export function manifestText(manifest: Omit<ReportManifest, 'signature'>): string {
  const { id, tenant_id, created_by, created_at, from, to, files, anchor } = manifest;
  const hashes = files.map(({ name, sha256 }) => [name, sha256]);
  return `sallyport access report 1 ${JSON.stringify([id, tenant_id, created_by, created_at, from, to, hashes, anchor])}`;
}
