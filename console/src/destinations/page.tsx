/** The list of destinations, and one of them: its requests, who can use it, its uses, and a dry run. */
import { Button } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import type { Destination } from '../../../sdk/src/sallyport.ts';
import { describeRequest } from '../../../src/domain/describe-destination.ts';
import { ruleTitle } from '../access/grants.ts';
import { useApplications } from '../applications/application-store.ts';
import { announce } from '../frame/announce.ts';
import { ConfirmDialog } from '../frame/confirm-dialog.tsx';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { plural } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useLoad } from '../frame/load.ts';
import { href, navigate } from '../frame/route.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { SkeletonPage } from '../frame/skeleton.tsx';
import { DryRun } from './dry-run.tsx';
import { EditDestination } from './edit.tsx';
import { useDestinations } from './stored.ts';
import { Uses } from './uses.tsx';

export function Destinations() {
  const signedIn = useSignedIn();
  const { data, error, reload } = useDestinations();
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Destinations</h1>
          <p className="quiet">Services where callers use tokens without seeing their data</p>
        </div>
        {holds(signedIn, 'destination:create') && (
          <Button
            component="a"
            href={href('destinations', 'new')}
            leftSection={<Icon name="plus" size={14} />}
          >
            Create
          </Button>
        )}
      </header>
      {error !== undefined && <ErrorNotice error={error} retry={reload} />}
      {data && (
        <Card title="All destinations" note={data.length === 0 && 'No destinations are visible to this key.'}>
          {data.map(({ id, name, origin, requests }) => (
            <li key={id}>
              <a className="link" href={href('destinations', id)}>
                {name}
              </a>
              <span className="fine">
                {origin} · {plural(requests.length, 'request')}
              </span>
            </li>
          ))}
        </Card>
      )}
    </div>
  );
}

function Card({ title, note, children }: { title: string; note?: ReactNode; children: ReactNode }) {
  return (
    <section className="card" aria-label={title}>
      <h2>{title}</h2>
      <ul className="granted">{children}</ul>
      {note && <p className="fine">{note}</p>}
    </section>
  );
}

export function DestinationPage({ id, editing }: { id: string; editing: boolean }) {
  const { api } = useSignedIn();
  const { data, error, reload } = useLoad(`destination ${id}`, (signal) =>
    api.destinations.get(id, { signal }),
  );
  if (error !== undefined && !data)
    return (
      <div className="page">
        <h1>Destination</h1>
        <ErrorNotice error={error} retry={reload} />
      </div>
    );
  if (!data) return <SkeletonPage />;
  return editing ? <EditDestination destination={data} /> : <DestinationView destination={data} />;
}

function DestinationView({ destination }: { destination: Destination }) {
  const signedIn = useSignedIn();
  const [deleting, setDeleting] = useState(false);
  const { id, name, origin, requests, header_names, timeout } = destination;
  const remove = async () => {
    await signedIn.api.destinations.delete(id);
    announce(`${name} deleted.`);
    setDeleting(false);
    navigate('destinations');
  };
  return (
    <div className="page">
      <a className="back" href={href('destinations')}>
        <Icon name="back" size={14} /> Destinations
      </a>
      <header className="page-head">
        <div>
          <h1>{name}</h1>
          <p className="quiet">
            {origin} · {header_names.length > 0 ? `adds ${header_names.join(', ')}` : 'adds no headers'} ·{' '}
            timeout {plural(timeout, 'second')} · <code>/proxy/{name}/…</code>
          </p>
        </div>
        <div className="actions">
          {holds(signedIn, 'destination:update') && (
            <Button component="a" variant="default" href={href('destinations', id, 'edit')}>
              Edit
            </Button>
          )}
          {holds(signedIn, 'destination:delete') && (
            <Button variant="default" onClick={() => setDeleting(true)}>
              Delete…
            </Button>
          )}
        </div>
      </header>
      <div className="columns">
        <div className="stack-wide">
          <Card title="Requests">
            {requests.map((request) => (
              <ListedRequest key={describeRequest(request)} request={request} />
            ))}
          </Card>
          <Users id={id} name={name} />
          <Uses id={id} />
        </div>
        <aside className="card sticky" aria-label="Dry run">
          <h2>Dry run</h2>
          <DryRun destination={destination} />
        </aside>
      </div>
      {deleting && (
        <ConfirmDialog
          title={`Delete ${name}`}
          close={() => setDeleting(false)}
          action="Delete"
          run={remove}
          dangerous
          focus="cancel"
        >
          <p className="quiet">
            Requests to it fail immediately. Rules with its ID match nothing, also if the name is used again.
          </p>
          <Losers id={id} />
        </ConfirmDialog>
      )}
    </div>
  );
}

function ListedRequest({ request }: { request: Destination['requests'][number] }) {
  const { name, description, schema, ...others } = request;
  return (
    <li>
      {name !== undefined && <strong>{name}</strong>}
      <code>
        {request.method} {request.path}
      </code>
      {description !== undefined && <span>{description}</span>}
      <span className="fine">{describeRequest(others).replace(/^\S+ \S+: /, '')}</span>
      {schema && (
        <details>
          <summary className="fine">Schema of the body</summary>
          <section className="snippet" aria-label={`Schema of ${name ?? request.path}`}>
            <pre>{JSON.stringify(schema, undefined, 2)}</pre>
          </section>
        </details>
      )}
    </li>
  );
}

/** The applications with rules that name the destination, one entry for each rule. */
function useGrants(id: string) {
  const { applications } = useSignedIn();
  const { list, complete, error } = useApplications(applications);
  const grants = list.flatMap((application) =>
    application.rules
      .filter(({ destinations = [] }) => destinations.includes(id))
      .map((rule) => ({ application, rule, where: ruleTitle(rule) })),
  );
  return { grants, complete, error };
}

/** The applications that a deletion of the destination affects. */
function Losers({ id }: { id: string }) {
  const { grants, complete, error } = useGrants(id);
  const names = new Map(grants.map(({ application }) => [application.id, application.name]));
  if (error !== undefined) return <ErrorNotice error={error} />;
  if (!complete) return <p className="fine">Loading who can use it…</p>;
  if (names.size === 0) return <p className="fine">No application has a rule for it.</p>;
  return (
    <section aria-label="Who loses it">
      <p>
        {plural(names.size, 'application loses', 'applications lose')} it, with their sessions and
        delegations:
      </p>
      <ul className="granted">
        {[...names].map(([application, name]) => (
          <li key={application}>
            <bdi>{name}</bdi>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Users({ id, name }: { id: string; name: string }) {
  const { grants, complete, error } = useGrants(id);
  const review = (q: string) =>
    `${href('who')}?${new URLSearchParams({ q, permission: 'token:use', destination: name })}`;
  const note = complete ? 'Open a container to see sessions and delegations, too.' : 'Loading…';
  return (
    <Card
      title="Who can use it"
      note={complete && grants.length === 0 ? 'No application has a rule for it.' : note}
    >
      {error !== undefined && <ErrorNotice error={error} />}
      {grants.map(({ application, where, rule }) => (
        <li key={`${application.id} ${rule.priority} ${where}`}>
          <a className="link" href={href('applications', application.id)}>
            <bdi>{application.name}</bdi>
          </a>
          <a className="link fine" href={review(rule.container ?? '/')}>
            {where}
          </a>
        </li>
      ))}
    </Card>
  );
}
