/** What would it see? For an Application that is there, or for a Session grant that is being thought over. */
import { Button, PasswordInput, SegmentedControl, Select, TextInput } from '@mantine/core';
import { type FormEvent, useMemo, useState } from 'react';
import type { Decision } from '../../../sdk/src/sallyport.ts';
import { useRoll } from '../applications/roll.ts';
import { CopyButton } from '../frame/copy-button.tsx';
import { Complaint } from '../frame/problem.tsx';
import { useSignedIn } from '../frame/signed-in.ts';
import { GrantsEditor } from './editor.tsx';
import { type Grants, newRule, nothing } from './grants.ts';
import { Ladder } from './ladder.tsx';
import { Preview } from './preview.tsx';

type Subject = 'application' | 'session' | 'key';

export function PreviewPage() {
  const [subject, setSubject] = useState<Subject>('application');
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>What would it see?</h1>
          <p className="quiet">Decided by the same code that guards the data, with every reason.</p>
        </div>
        <SegmentedControl
          aria-label="About what"
          data={[
            { value: 'application', label: 'An Application' },
            { value: 'session', label: 'A Session grant' },
            { value: 'key', label: 'A key' },
          ]}
          value={subject}
          onChange={(value) => setSubject(value as Subject)}
        />
      </header>
      {subject === 'application' && <OfApplication />}
      {subject === 'session' && <OfSession />}
      {subject === 'key' && <OfKey />}
    </div>
  );
}

function useChoices() {
  const { list } = useRoll(useSignedIn().roll);
  return useMemo(() => list.slice(0, 2000).map(({ id, name }) => ({ value: id, label: name })), [list]);
}

function OfApplication() {
  const signedIn = useSignedIn();
  const { byId, list } = useRoll(signedIn.roll);
  const choices = useChoices();
  const [id, setId] = useState<string | null>(null);
  const application = byId.get(id ?? '') ?? list.find(({ rules }) => rules.length > 0) ?? list[0];
  const [draft, setDraft] = useState<{ id: string; grants: Grants }>();
  if (!application) return <p className="quiet">There is no Application that this key may see.</p>;
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
          <h2>If its grants were</h2>
          <GrantsEditor
            owner={application.type}
            grants={grants}
            errors={{}}
            change={(next) => setDraft({ id: application.id, grants: next })}
          />
        </section>
      </div>
      <aside className="card sticky">
        <h2>Its key would see</h2>
        <Preview holder="application" before={application} after={grants} />
      </aside>
    </div>
  );
}

function OfSession() {
  const { byId } = useRoll(useSignedIn().roll);
  const choices = useChoices();
  const [authorizer, setAuthorizer] = useState<string | null>(null);
  const [grants, setGrants] = useState<Grants>(() => ({ ...nothing, rules: [newRule('session', [])] }));
  const [before, setBefore] = useState(grants);
  const body = JSON.stringify({ nonce: '…', permissions: grants.permissions, rules: grants.rules }, null, 2);
  return (
    <div className="columns">
      <div className="stack-wide">
        <Select
          label="Bound by its authorizer"
          description="A Session that is authorized by a key without session:authorize never sees more than that key."
          placeholder="by nobody"
          searchable
          clearable
          data={choices}
          value={authorizer}
          onChange={setAuthorizer}
          limit={50}
        />
        <section className="card stack">
          <h2>The grant</h2>
          <GrantsEditor owner="session" grants={grants} errors={{}} change={setGrants} />
        </section>
        <section className="card stack-tight">
          <h2>As your backend sends it</h2>
          <div className="snippet">
            <pre>{body}</pre>
            <CopyButton text={body} />
          </div>
        </section>
      </div>
      <aside className="card sticky">
        <h2>The Session would see</h2>
        <Preview holder="session" before={before} after={grants} ceiling={byId.get(authorizer ?? '')} />
        {before !== grants && (
          <Button variant="subtle" size="compact-xs" mt={8} onClick={() => setBefore(grants)}>
            Compare with this from here on
          </Button>
        )}
      </aside>
    </div>
  );
}

function OfKey() {
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
        <h2>Ask the service</h2>
        <PasswordInput
          label="Key of an Application or a Session"
          placeholder="the one that is signed in"
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
          label="Id of the Token"
          placeholder="none"
          value={id}
          onChange={(event) => setId(event.currentTarget.value)}
        />
        <Complaint error={error} />
        <div className="foot">
          <Button type="submit">Ask</Button>
        </div>
      </form>
      <aside className="card sticky" aria-live="polite">
        <h2>Its answer</h2>
        {decision ? (
          <Ladder verdict={decision} permission={permission} />
        ) : (
          <p className="fine">
            The answer of <code>POST /decisions</code>, drawn: every rule in the order in which they are
            asked.
          </p>
        )}
      </aside>
    </div>
  );
}
