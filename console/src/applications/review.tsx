/** What is about to happen, before it does. */
import { Button, Modal } from '@mantine/core';
import { useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { type Difference, describeRule, differences } from '../access/grants.ts';
import { exactly } from '../frame/words.ts';
import { type Draft, endOf, originsOf, places } from './draft.ts';
import { Maker } from './table.tsx';

interface Props {
  readonly draft: Draft;
  readonly application: Application | undefined;
  /** What somebody else has made of it since it was read. */
  readonly meanwhile: Application | undefined;
  readonly lookAgain: (now: Application) => void;
  readonly save: () => Promise<void>;
  readonly close: () => void;
}

export function Review({ draft, application, meanwhile, lookAgain, save, close }: Props) {
  const [busy, setBusy] = useState(false);
  const changes = application && differences(application, { ...draft, allowed_origins: originsOf(draft) });
  const go = async () => {
    setBusy(true);
    await save();
    setBusy(false);
  };
  return (
    <Modal
      opened
      onClose={close}
      size={560}
      title={application ? 'What changes' : 'Create this Application?'}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <div className="stack">
        {changes ? <Changes changes={changes} /> : <Summary draft={draft} />}
        {application && meanwhile && <Meanwhile before={application} now={meanwhile} />}
        <div className="foot">
          <Button variant="default" onClick={close}>
            Go on editing
          </Button>
          {meanwhile ? (
            <Button onClick={() => lookAgain(meanwhile)}>Look again</Button>
          ) : (
            <Button onClick={go} loading={busy} disabled={changes?.length === 0} data-autofocus>
              {application ? 'Save' : 'Create'}
            </Button>
          )}
        </div>
      </div>
    </Modal>
  );
}

const signs = { added: '+', removed: '−', changed: '~' } as const;

export function Changes({ changes }: { changes: readonly Difference[] }) {
  if (changes.length === 0) return <p className="quiet">Nothing has changed yet.</p>;
  return (
    <>
      <Lines changes={changes} />
      <p className="fine">
        It holds for every request that is sent after it is saved, with the keys that are there.
      </p>
    </>
  );
}

function Lines({ changes }: { changes: readonly Difference[] }) {
  return (
    <ul className="changes">
      {changes.map(({ kind, text }) => (
        <li key={kind + text} className={`change-${kind}`}>
          <span aria-hidden="true">{signs[kind]}</span>
          <span className="unseen">{kind}: </span>
          {text}
        </li>
      ))}
    </ul>
  );
}

function Meanwhile({ before, now }: { before: Application; now: Application }) {
  const { modified_at: at = now.created_at, modified_by: who } = now;
  return (
    <div className="stack-tight meanwhile" role="alert">
      <p>
        <strong>Not saved: it was changed meanwhile</strong>, on {exactly(at)} <Maker id={who} />
      </p>
      <Lines changes={differences(before, now)} />
      <p className="fine">Look again to put your changes on top of these, and to see what would be saved.</p>
    </div>
  );
}

function Summary({ draft }: { draft: Draft }) {
  const end = endOf(draft, Date.now());
  const origins = originsOf(draft);
  return (
    <dl className="facts">
      <dt>Name</dt>
      <dd>
        <bdi>{draft.name}</bdi>
      </dd>
      <dt>Runs</dt>
      <dd>{places.find(({ type }) => type === draft.type)?.title.toLowerCase()}</dd>
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
          <dt>Everywhere</dt>
          <dd>{draft.permissions.join(', ')}</dd>
        </>
      )}
      {origins && (
        <>
          <dt>Pages</dt>
          <dd>{origins.length > 0 ? origins.join(', ') : 'all may use its key'}</dd>
        </>
      )}
      <dt>Expires</dt>
      <dd>{end ? exactly(end) : 'never'}</dd>
    </dl>
  );
}
