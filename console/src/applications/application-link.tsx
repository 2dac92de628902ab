import { shortId } from '../frame/format.ts';
import { href } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { useApplications } from './application-store.ts';
import { QuarantineTag } from './quarantine.tsx';

/** The name of an application, with its state. `name` is used until the list of applications is loaded. */
export function ApplicationLink({ id, name }: { id: string; name?: string }) {
  const { byId } = useApplications(useSignedIn().applications);
  const application = byId.get(id);
  return (
    <span className="application-link">
      <a className="link" href={href('applications', id)}>
        <bdi>{application?.name ?? name ?? shortId(id)}</bdi>
      </a>
      <QuarantineTag since={application?.quarantined_at} />
    </span>
  );
}
