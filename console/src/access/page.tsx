/** Access preview for an application, a session grant or a key. */
import { Button, PasswordInput, SegmentedControl, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import type { Application, Decision } from '../../../sdk/src/sallyport.ts';
import { ApplicationPicker } from '../applications/application-picker.tsx';
import { openDraft } from '../applications/stored-draft.ts';
import { CopyButton } from '../frame/copy-button.tsx';
import { ErrorNotice, InlineError } from '../frame/error-notice.tsx';
import { useLoad } from '../frame/load.ts';
import { useRouteQuery } from '../frame/route.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { DecisionTrace } from './decision-trace.tsx';
import { differences, type Grants, newRule, noGrants } from './grants.ts';
import { GrantsEditor } from './grants-editor.tsx';
import { Preview } from './preview.tsx';

export function PreviewPage() {
  const [{ for: subject }, setQuery] = useRouteQuery({ for: 'application' });
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Access preview</h1>
          <p className="quiet">See what a key can access, and which rule decides.</p>
        </div>
        <SegmentedControl
          aria-label="Preview for"
          data={[
            { value: 'application', label: 'Application' },
            { value: 'session', label: 'Session grant' },
            { value: 'key', label: 'Key' },
          ]}
          value={subject}
          onChange={(value) => setQuery({ for: value })}
        />
      </header>
      {subject === 'application' && <ApplicationPreview />}
      {subject === 'session' && <SessionPreview />}
      {subject === 'key' && <KeyPreview />}
    </div>
  );
}

/** The application in the URL, or else the newest one that has rules. */
function useChosenApplication() {
  const { api } = useSignedIn();
  const [{ application: id }, setQuery] = useRouteQuery({ application: '' });
  const loaded = useLoad(`preview of ${id}`, async (signal) => {
    if (id !== '') return api.applications.get(id, { signal });
    const { data } = await api.applications.list({ size: 50 }, { signal });
    return data.find(({ rules }) => rules.length > 0) ?? data[0];
  });
  return { ...loaded, choose: (next: Application) => setQuery({ application: next.id }) };
}

function ApplicationPreview() {
  const { data: application, error, reload, choose } = useChosenApplication();
  if (error !== undefined) return <ErrorNotice error={error} retry={reload} />;
  return (
    <>
      <div className="preview-subject">
        <ApplicationPicker
          label="Application"
          value={application}
          onChange={(next) => next && choose(next)}
        />
      </div>
      {application && <DraftPreview key={application.id} application={application} />}
    </>
  );
}

function DraftPreview({ application }: { application: Application }) {
  const signedIn = useSignedIn();
  const [grants, setGrants] = useState<Grants>(application);
  const { permissions, rules } = grants;
  const changed = differences(application, { ...application, permissions, rules }).length > 0;
  const apply = () => openDraft(application, grants);
  return (
    <div className="columns">
      <section className="card stack">
        <h2>Grants</h2>
        <GrantsEditor owner={application.type} grants={grants} errors={{}} change={setGrants} />
      </section>
      <aside className="card sticky">
        <h2>Preview</h2>
        <Preview holder="application" before={application} after={grants} />
        {changed && (
          <div className="foot preview-foot">
            <Button variant="default" onClick={() => setGrants(application)}>
              Discard draft
            </Button>
            {holds(signedIn, 'application:update') && <Button onClick={apply}>Apply draft…</Button>}
          </div>
        )}
      </aside>
    </div>
  );
}

function SessionPreview() {
  const [authorizer, setAuthorizer] = useState<Application>();
  const [grants, setGrants] = useState<Grants>(() => ({ ...noGrants, rules: [newRule('session', [])] }));
  const [before, setBefore] = useState(grants);
  const body = JSON.stringify({ nonce: '…', permissions: grants.permissions, rules: grants.rules }, null, 2);
  return (
    <div className="columns">
      <div className="stack-wide">
        <ApplicationPicker
          label="Limited by authorizer"
          description="A session authorized by a key without session:authorize is limited to what that key can access."
          placeholder="Not limited"
          clearable
          value={authorizer}
          onChange={setAuthorizer}
        />
        <section className="card stack">
          <h2>Session grant</h2>
          <GrantsEditor owner="session" grants={grants} errors={{}} change={setGrants} />
        </section>
        <section className="card stack-tight">
          <h2>Request body for your backend</h2>
          <div className="snippet">
            <pre>{body}</pre>
            <CopyButton text={body} />
          </div>
        </section>
      </div>
      <aside className="card sticky">
        <h2>Preview</h2>
        <Preview holder="session" before={before} after={grants} ceiling={authorizer} />
        {before !== grants && (
          <Button variant="subtle" size="compact-xs" mt={8} onClick={() => setBefore(grants)}>
            Use as new baseline
          </Button>
        )}
      </aside>
    </div>
  );
}

function KeyPreview() {
  const { api, decideForOwnKey } = useSignedIn();
  const [credential, setCredential] = useState('');
  const [permission, setPermission] = useState('token:read');
  const [container, setContainer] = useState('/general/');
  const [id, setId] = useState('');
  const [decision, setDecision] = useState<Decision>();
  const [error, setError] = useState<unknown>();
  const ask = async (event: FormEvent) => {
    event.preventDefault();
    const resource = { ...(container && { container }), ...(id && { id }) };
    try {
      setDecision(
        credential === ''
          ? await decideForOwnKey(permission, resource)
          : await api.decide({ credential, permission, resource, explain: true }),
      );
      setError(undefined);
    } catch (failure) {
      setDecision(undefined);
      setError(failure);
    }
  };
  return (
    <div className="columns">
      <form className="card stack" onSubmit={ask}>
        <h2>Check access</h2>
        <PasswordInput
          label="Application or session key"
          placeholder="Signed-in key"
          autoComplete="off"
          value={credential}
          onChange={(event) => setCredential(event.currentTarget.value.trim())}
        />
        <TextInput
          label="Permission"
          value={permission}
          onChange={(event) => setPermission(event.currentTarget.value)}
        />
        <TextInput
          label="Container"
          value={container}
          onChange={(event) => setContainer(event.currentTarget.value)}
        />
        <TextInput
          label="Token ID"
          placeholder="Optional"
          value={id}
          onChange={(event) => setId(event.currentTarget.value)}
        />
        <InlineError error={error} />
        <div className="foot">
          <Button type="submit">Check</Button>
        </div>
      </form>
      <aside className="card sticky" aria-live="polite">
        <h2>Decision</h2>
        {decision ? (
          <DecisionTrace verdict={decision} permission={permission} />
        ) : (
          <p className="fine">
            Shows the result of <code>POST /decisions</code> with every rule in evaluation order.
          </p>
        )}
      </aside>
    </div>
  );
}
