/** Shows the changes before they are saved. */
import { useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { type Difference, describeIssuer, describeRule, differences } from '../access/grants.ts';
import { ConfirmDialog } from '../frame/confirm-dialog.tsx';
import { formatDate } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useSignedIn } from '../frame/signed-in.ts';
import { type Draft, expiryDate, fieldsOf, issuersOf, networksOf, originsOf } from './draft.ts';
import { Impact } from './impact.tsx';
import { CreatedBy } from './table.tsx';

interface Props {
  readonly draft: Draft;
  readonly application: Application | undefined;
  /** The stored version, if it was changed after the form was loaded. */
  readonly conflict: Application | undefined;
  readonly rebase: (now: Application) => void;
  readonly save: () => Promise<void>;
  readonly close: () => void;
}

export function ReviewDialog({ draft, application, conflict, rebase, save, close }: Props) {
  const { ownApplication } = useSignedIn();
  const [opened] = useState(Date.now);
  const changes = application && differences(application, fieldsOf(draft, application, opened));
  return (
    <ConfirmDialog
      title={application ? 'Review changes' : 'Create this application?'}
      close={close}
      cancel="Continue editing"
      action={conflict ? 'Apply my changes' : application ? 'Save' : 'Create'}
      run={() => (conflict ? rebase(conflict) : save())}
      disabled={!conflict && changes?.length === 0}
      size={560}
    >
      {changes ? <Changes changes={changes} /> : <Summary draft={draft} />}
      {application && ownApplication?.id === application.id && (
        <p className="notice">
          <Icon name="info" />
          <span>You are signed in with a key of this application, so the change also applies to you.</span>
        </p>
      )}
      {application && !conflict && changes?.some(({ text }) => /^(rule|permission) /.test(text)) && (
        <Impact id={application.id} draft={draft} />
      )}
      {application && conflict && <Conflict before={application} now={conflict} />}
    </ConfirmDialog>
  );
}

const signs = { added: '+', removed: '−', changed: '~' } as const;

export function Changes({ changes }: { changes: readonly Difference[] }) {
  if (changes.length === 0) return <p className="quiet">No changes.</p>;
  return (
    <>
      <Lines changes={changes} />
      <p className="fine">Applies immediately to all existing keys.</p>
    </>
  );
}

export function Lines({ changes }: { changes: readonly Difference[] }) {
  return (
    <ul className="changes">
      {changes.map(({ kind, text }) => (
        <li key={kind + text} className={`change-${kind}`}>
          <span aria-hidden="true">{signs[kind]}</span>
          <span className="visually-hidden">{kind}: </span>
          {text}
        </li>
      ))}
    </ul>
  );
}

function Conflict({ before, now }: { before: Application; now: Application }) {
  const { modified_at: at = now.created_at, modified_by: who } = now;
  return (
    <div className="stack-tight conflict" role="alert">
      <p>
        <strong>Not saved: someone else changed this application</strong> on {formatDate(at)}{' '}
        <CreatedBy id={who} />
      </p>
      <Lines changes={differences(before, now)} />
      <p className="fine">Apply your changes to the new version, then review and save.</p>
    </div>
  );
}

function Summary({ draft }: { draft: Draft }) {
  const end = expiryDate(draft, Date.now());
  const [origins, networks, issuers = []] = [originsOf(draft), networksOf(draft), issuersOf(draft)];
  return (
    <dl className="facts">
      <dt>Name</dt>
      <dd>
        <bdi>{draft.name}</bdi>
      </dd>
      <dt>Type</dt>
      <dd>{draft.type}</dd>
      {draft.rules.length > 0 && (
        <>
          <dt>Rules</dt>
          <dd>
            {draft.rules.map((rule) => (
              <div key={describeRule(rule)}>{describeRule(rule)}</div>
            ))}
          </dd>
        </>
      )}
      {draft.permissions.length > 0 && (
        <>
          <dt>Permissions</dt>
          <dd>{draft.permissions.join(', ')}</dd>
        </>
      )}
      {origins && (
        <>
          <dt>Allowed origins</dt>
          <dd>{origins.length > 0 ? origins.join(', ') : 'all'}</dd>
        </>
      )}
      {origins && (
        <>
          <dt>Sessions</dt>
          <dd>{draft.requireBoundSessions ? 'only bound sessions' : 'bound and unbound'}</dd>
        </>
      )}
      {networks && (
        <>
          <dt>Allowed networks</dt>
          <dd>{networks.length > 0 ? networks.join(', ') : 'all'}</dd>
        </>
      )}
      {issuers.length > 0 && (
        <>
          <dt>Trusted issuers</dt>
          <dd>{issuers.map(describeIssuer).join('; ')}</dd>
        </>
      )}
      <dt>Expires</dt>
      <dd>{end ? formatDate(end) : 'never'}</dd>
    </dl>
  );
}
