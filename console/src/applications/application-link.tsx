import { shortId } from '../frame/format.ts';
import { href } from '../frame/route.ts';
import { useApplicationSummary } from './application-summary.ts';
import { QuarantineTag } from './quarantine.tsx';

/** Link to an application, with its name and state. Shows `name` until the application is loaded. */
export function ApplicationLink({ id, name }: { id: string; name?: string }) {
  const application = useApplicationSummary(id);
  return (
    <span className="application-link">
      <a className="link" href={href('applications', id)}>
        <bdi>{application?.name ?? name ?? shortId(id)}</bdi>
      </a>
      <QuarantineTag since={application?.quarantined_at} />
    </span>
  );
}
