/** Access preview for an application, a session grant or a key. */
import { Button, PasswordInput, SegmentedControl, Select, TextInput } from '@mantine/core';
import { type FormEvent, useMemo, useState } from 'react';
import type { Decision } from '../../../sdk/src/sallyport.ts';
import { useApplications } from '../applications/application-store.ts';
import { CopyButton } from '../frame/copy-button.tsx';
import { InlineError } from '../frame/error-notice.tsx';
import { useSignedIn } from '../frame/signed-in.ts';
import { DecisionTrace } from './decision-trace.tsx';
import { type Grants, newRule, noGrants } from './grants.ts';
import { GrantsEditor } from './grants-editor.tsx';
import { Preview } from './preview.tsx';

type Subject = 'application' | 'session' | 'key';

export function PreviewPage() {
  const [subject, setSubject] = useState<Subject>('application');
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Access preview</h1>
          <p className="quiet">See what a key can access, and which rule decides. Nothing is saved.</p>
        </div>
        <SegmentedControl
          aria-label="Preview for"
          data={[
            { value: 'application', label: 'Application' },
            { value: 'session', label: 'Session grant' },
            { value: 'key', label: 'Key' },
          ]}
          value={subject}
          onChange={(value) => setSubject(value as Subject)}
        />
      </header>
      {subject === 'application' && <ApplicationPreview />}
      {subject === 'session' && <SessionPreview />}
      {subject === 'key' && <KeyPreview />}
    </div>
  );
}

function useChoices() {
  const { list } = useApplications(useSignedIn().applications);
  return useMemo(() => list.slice(0, 2000).map(({ id, name }) => ({ value: id, label: name })), [list]);
}

function ApplicationPreview() {
  const signedIn = useSignedIn();
  const { byId, list } = useApplications(signedIn.applications);
  const choices = useChoices();
  const [id, setId] = useState<string | null>(null);
  const application = byId.get(id ?? '') ?? list.find(({ rules }) => rules.length > 0) ?? list[0];
  const [draft, setDraft] = useState<{ id: string; grants: Grants }>();
  if (!application) return <p className="quiet">No applications visible to this key.</p>;
  const grants = draft?.id === application.id ? draft.grants : application;
  return (
    <div className="columns">
      <div className="stack-wide">
        <Select
          label="Application"
          searchable
          data={choices}
          value={application.id}
          onChange={setId}
          allowDeselect={false}
          limit={50}
        />
        <section className="card stack">
          <h2>Grants</h2>
          <GrantsEditor
            owner={application.type}
            grants={grants}
            errors={{}}
            change={(next) => setDraft({ id: application.id, grants: next })}
          />
        </section>
      </div>
      <aside className="card sticky">
        <h2>Preview</h2>
        <Preview holder="application" before={application} after={grants} />
      </aside>
    </div>
  );
}

function SessionPreview() {
  const { byId } = useApplications(useSignedIn().applications);
  const choices = useChoices();
  const [authorizer, setAuthorizer] = useState<string | null>(null);
  const [grants, setGrants] = useState<Grants>(() => ({ ...noGrants, rules: [newRule('session', [])] }));
  const [before, setBefore] = useState(grants);
  const body = JSON.stringify({ nonce: '…', permissions: grants.permissions, rules: grants.rules }, null, 2);
  return (
    <div className="columns">
      <div className="stack-wide">
        <Select
          label="Limited by authorizer"
          description="A session authorized by a key without session:authorize is limited to what that key can access."
          placeholder="Not limited"
          searchable
          clearable
          data={choices}
          value={authorizer}
          onChange={setAuthorizer}
          limit={50}
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
        <Preview holder="session" before={before} after={grants} ceiling={byId.get(authorizer ?? '')} />
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
