/** One application: access, keys, access preview and usage. */
import { Button, Menu } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import type { Application, ApplicationKey } from '../../../sdk/src/sallyport.ts';
import { escapeText } from '../../../src/domain/escape.ts';
import { currentRules } from '../../../src/domain/rule.ts';
import { describeIssuer, ruleTitle } from '../access/grants.ts';
import { OutcomeBadge, outcomeIn } from '../access/outcome.tsx';
import { Preview } from '../access/preview.tsx';
import { CopyButton } from '../frame/copy-button.tsx';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { countdown, formatDate, timeAgo } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useShortcuts } from '../frame/keyboard.ts';
import { useLoad, useNow } from '../frame/load.ts';
import { href, navigate, useRouteQuery } from '../frame/route.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { SkeletonPage } from '../frame/skeleton.tsx';
import { Advice } from './advice.tsx';
import { DeleteDialog } from './delete-dialog.tsx';
import { EditApplication } from './edit.tsx';
import { History } from './history.tsx';
import { Keys } from './keys.tsx';
import { labelsOf } from './labels.ts';
import { NewKeyDialog } from './new-key-dialog.tsx';
import { QuarantineButton, QuarantineNotice, QuarantineTag, suspectOf } from './quarantine.tsx';
import { RotateDialog } from './rotate-dialog.tsx';
import { CreatedBy, Expires, LastUsed } from './table.tsx';
import { TypeBadge } from './type-badge.tsx';
import { KeyRequests, RecordedActivity, Usage } from './usage.tsx';

export function ApplicationPage({ id, editing }: { id: string; editing: boolean }) {
  const { api } = useSignedIn();
  const { data, error, reload } = useLoad(`application ${id}`, (signal) =>
    api.applications.get(id, { signal }),
  );
  if (error !== undefined && !data) {
    return (
      <div className="page stack">
        <Back />
        <h1>Application</h1>
        <ErrorNotice error={error} retry={reload} />
      </div>
    );
  }
  if (!data) return <SkeletonPage />;
  return editing ? (
    <EditApplication application={data} />
  ) : (
    <ApplicationView application={data} reload={reload} />
  );
}

function Back() {
  return (
    <a className="back" href={href('applications')}>
      <Icon name="back" size={14} /> Applications
    </a>
  );
}

type Open = 'rotate' | 'delete' | { readonly secret: string; readonly note: string } | undefined;

function ApplicationView({ application, reload }: { application: Application; reload: () => void }) {
  const signedIn = useSignedIn();
  const { id, name, type } = application;
  const [{ do: wanted }, setQuery] = useRouteQuery({ do: '' });
  const [other, setOther] = useState<Open>();
  const open = other ?? (wanted === 'rotate' && holds(signedIn, 'application:update') ? 'rotate' : undefined);
  const setOpen = (next: Open) => {
    setQuery({ do: '' }, 'replace');
    setOther(next);
  };
  const keys = useLoad(`keys ${id}`, (signal) => signedIn.api.applications.keys(id, { signal }));
  const { data: usage } = useLoad(`usage ${id}`, (signal) => signedIn.api.applications.usage(id, { signal }));
  const mayChange = holds(signedIn, 'application:update');
  const mayDelete = holds(signedIn, 'application:delete');
  useShortcuts({ e: () => mayChange && navigate('applications', id, 'edit') });
  return (
    <div className="page">
      <Back />
      <header className="page-head">
        <div>
          <h1>
            <bdi>{name}</bdi>
          </h1>
          <p className="head-line">
            <TypeBadge type={type} />
            <QuarantineTag since={application.quarantined_at} />
            {signedIn.ownApplication?.id === id && <span className="tag">signed in</span>}
          </p>
        </div>
        <div className="actions">
          {mayChange && (
            <Button
              component="a"
              variant="default"
              href={href('applications', id, 'edit')}
              leftSection={<Icon name="edit" size={14} />}
            >
              Edit
            </Button>
          )}
          {mayChange && (
            <Button
              variant="default"
              leftSection={<Icon name="rotate" size={14} />}
              onClick={() => setOpen('rotate')}
            >
              Rotate key
            </Button>
          )}
          <QuarantineButton
            key={wanted}
            suspect={suspectOf(application)}
            done={reload}
            isOpen={wanted === 'quarantine'}
          />
          {mayDelete && <More remove={() => setOpen('delete')} />}
        </div>
      </header>
      <QuarantineNotice since={application.quarantined_at} />
      <div className="columns columns-facts">
        <div className="stack-wide">
          <Access application={application} />
          <section className="card">
            <h2>Keys</h2>
            <Keys application={application} keys={keys} mayChange={mayChange} />
            {usage && usage.keys.length > 0 && <KeyRequests id={id} usage={usage} />}
          </section>
          <RecordedActivity application={application} />
          <Advice application={application} />
          <section className="card">
            <h2>Access preview</h2>
            <Preview holder="application" after={application} />
          </section>
          <History application={application} />
        </div>
        <aside className="stack-wide">
          <Details application={application} />
          {usage && <Usage usage={usage} />}
        </aside>
      </div>
      <Dialogs
        application={application}
        keys={keys.data ?? []}
        open={open}
        setOpen={setOpen}
        reload={() => {
          keys.reload();
          reload();
        }}
      />
    </div>
  );
}

function More({ remove }: { remove: () => void }) {
  return (
    <Menu position="bottom-end" width={180}>
      <Menu.Target>
        <Button variant="default" aria-label="More actions" px={8}>
          <Icon name="more" />
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item color="red" leftSection={<Icon name="trash" size={14} />} onClick={remove}>
          Delete…
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

interface DialogsProps {
  readonly application: Application;
  readonly keys: readonly ApplicationKey[];
  readonly open: Open;
  readonly setOpen: (open: Open) => void;
  readonly reload: () => void;
}

function Dialogs({ application, keys, open, setOpen, reload }: DialogsProps): ReactNode {
  const close = () => setOpen(undefined);
  if (open === 'delete') return <DeleteDialog application={application} close={close} />;
  if (open === 'rotate') {
    const done = (secret: string, note: string) => setOpen({ secret, note });
    return <RotateDialog application={application} keys={keys} close={close} done={done} />;
  }
  if (!open) return null;
  const stored = () => {
    close();
    reload();
  };
  return <NewKeyDialog secret={open.secret} note={open.note} name={application.name} close={stored} />;
}

function Access({ application: { rules, permissions } }: { application: Application }) {
  const { permissions: known } = useSignedIn();
  const now = useNow();
  const descriptions = new Map(known.map(({ name, description }) => [name, description]));
  return (
    <section className="card">
      <h2>Access</h2>
      {rules.length > 0 && (
        <ol className="rules">
          {currentRules(rules, now).map((rule, index) => (
            <li key={`${index}-${rule.priority}`}>
              <span className="rule-number" title={`priority ${rule.priority}`}>
                {rule.priority}
              </span>
              <div>
                <p>
                  <code>{ruleTitle(rule)}</code> <OutcomeBadge answer={outcomeIn(rule)} />
                </p>
                <p className="fine">
                  {rule.permissions.join(', ')}
                  {rule.expires_at && <> · ends in {countdown(rule.expires_at, now)}</>}
                  {rule.description !== undefined && <> · {rule.description}</>}
                  {rule.defaults && (
                    <>
                      {' '}
                      · defaults <code>{JSON.stringify(rule.defaults)}</code>
                    </>
                  )}
                </p>
              </div>
            </li>
          ))}
        </ol>
      )}
      {permissions.length > 0 && (
        <ul className="granted">
          {permissions.map((name) => (
            <li key={name}>
              <code>{name}</code>
              <span className="fine">{descriptions.get(name) ?? 'Custom permission.'}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Details({ application }: { application: Application }) {
  const now = useNow();
  const { id, created_at: created, created_by: createdBy } = application;
  const { modified_at: modified, modified_by: modifier, allowed_origins: origins } = application;
  return (
    <section className="card">
      <h2>Details</h2>
      <dl className="facts">
        <dt>Last used</dt>
        <dd>
          <LastUsed at={application.last_used_at} now={now} />
        </dd>
        <dt>Expires</dt>
        <dd>
          <Expires at={application.expires_at} now={now} />
        </dd>
        <dt>Created</dt>
        <dd title={formatDate(created)}>
          {timeAgo(created, now)} <CreatedBy id={createdBy} />
        </dd>
        {modified !== undefined && (
          <>
            <dt>Updated</dt>
            <dd title={formatDate(modified)}>
              {timeAgo(modified, now)} <CreatedBy id={modifier} />
            </dd>
          </>
        )}
        {origins !== undefined && (
          <>
            <dt>Allowed origins</dt>
            <dd>{origins.join(', ')}</dd>
          </>
        )}
        {application.allowed_networks !== undefined && (
          <>
            <dt>Allowed networks</dt>
            <dd>{application.allowed_networks.join(', ')}</dd>
          </>
        )}
        {application.trusted_issuers !== undefined && (
          <>
            <dt>Trusted issuers</dt>
            <dd>
              {application.trusted_issuers.map(describeIssuer).map((text) => (
                <div key={text}>{escapeText(text)}</div>
              ))}
            </dd>
          </>
        )}
        {application.labels !== undefined && (
          <>
            <dt>Labels</dt>
            <dd>{labelsOf(application).join(', ')}</dd>
          </>
        )}
        {application.require_bound_sessions && (
          <>
            <dt>Sessions</dt>
            <dd>only bound sessions</dd>
          </>
        )}
        <dt>ID</dt>
        <dd className="id-line">
          <code>{id}</code> <CopyButton text={id} />
        </dd>
      </dl>
    </section>
  );
}
