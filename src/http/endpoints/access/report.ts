/** Signs access reports, which the CLI and the console build. */
import { ReportCreate, ReportManifest } from '../../../domain/access/report.ts';
import { timestamp } from '../../../domain/common-fields.ts';
import { throwIfInvalid } from '../../../domain/error.ts';
import { newId } from '../../../domain/key.ts';
import { changeEndpoint, reply } from '../../pipeline/route.ts';
import { example } from '../../reference/examples.ts';

export const createReport = changeEndpoint({
  name: 'createReport',
  operation: 'access.report',
  tag: 'Access review',
  summary: 'Sign an access report',
  description:
    'Signs the hashes of the files of a report, with the time, your application and the end of the audit log. `sallyport audit verify` checks the signature. It proves who created the report and when, and that its files were not changed since; the files themselves are not sent. The audit log records the report with its hashes.',
  body: ReportCreate,
  bodyExample: example.reportCreate,
  replies: { 201: reply('The signed manifest of the report.', ReportManifest, example.reportManifest) },
  handle: async ({ principal, body }, { store }) => {
    const { from, to, files } = body;
    if (from >= to) throwIfInvalid({ to: ['must be later than from'] });
    if (new Set(files.map(({ name }) => name)).size < files.length)
      throwIfInvalid({ files: ['must have different names'] });
    const { tenantId: tenant_id, applicationId: created_by, now } = principal;
    const created = { id: newId(now), tenant_id, created_by, created_at: timestamp(now) };
    const manifest = await store.signReport({ ...created, from: timestamp(from), to: timestamp(to), files });
    const difference = { from: { to: manifest.from }, to: { to: manifest.to }, files: { to: files } };
    return { status: 201, body: manifest, entity: { kind: 'report', id: manifest.id }, difference };
  },
});
