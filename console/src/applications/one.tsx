/** One Application: what it may do, its keys, what they would see, and what it makes use of. */
import { Button, Menu } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import type { Application, ApplicationKey } from '../../../sdk/src/sallyport.ts';
import { ruleTitle } from '../access/grants.ts';
import { Outcome } from '../access/outcome.tsx';
import { Preview } from '../access/preview.tsx';
import { CopyButton } from '../frame/copy-button.tsx';
import { Icon } from '../frame/icons.tsx';
import { useShortcuts } from '../frame/keyboard.ts';
import { useLoad, useNow } from '../frame/load.ts';
import { go, href } from '../frame/place.ts';
import { Problem } from '../frame/problem.tsx';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { ago, exactly } from '../frame/words.ts';
import { Delete } from './delete.tsx';
import { EditApplication } from './edit.tsx';
import { KeyOnce } from './key-once.tsx';
import { Keys } from './keys.tsx';
import { Rotate } from './rotate.tsx';
import { Expires, LastUsed, Maker } from './table.tsx';
import { TypeBadge } from './type.tsx';
import { Usage } from './usage.tsx';

export function OneApplication({ id, editing }: { id: string; editing: boolean }) {
  const { api } = useSignedIn();
  const { data, error, reload } = useLoad(`application ${id}`, (signal) =>
    api.applications.get(id, { signal }),
  );
  if (error !== undefined) {
    return (
      <div className="page stack">
        <Back />
        <h1>Application</h1>
        <Problem error={error} retry={reload} />
      </div>
    );
  }
  if (!data) return <div className="page" aria-busy="true" />;
  return editing ? <EditApplication application={data} /> : <Shown application={data} reload={reload} />;
}

function Back() {
  return (
    <a className="back" href={href('applications')}>
      <Icon name="back" size={14} /> Applications
    </a>
  );
}

type Open = 'rotate' | 'delete' | { readonly secret: string; readonly note: string } | undefined;

function Shown({ application, reload }: { application: Application; reload: () => void }) {
  const signedIn = useSignedIn();
  const [open, setOpen] = useState<Open>();
  const { id, name, type } = application;
  const keys = useLoad(`keys ${id}`, (signal) => signedIn.api.applications.keys(id, { signal }));
  const mayChange = holds(signedIn, 'application:update') !== false;
  const mayDelete = holds(signedIn, 'application:delete') !== false;
  useShortcuts({ e: () => mayChange && go('applications', id, 'edit') });
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
            {signedIn.own?.id === id && <span className="tag">this key</span>}
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
              Rotate
            </Button>
          )}
          {mayDelete && <More remove={() => setOpen('delete')} />}
        </div>
      </header>
      <div className="columns columns-facts">
        <div className="stack-wide">
          <Access application={application} />
          <section className="card">
            <h2>Keys</h2>
            <Keys application={application} keys={keys} mayChange={mayChange} />
          </section>
          <section className="card">
            <h2>What would this key see?</h2>
            <Preview holder="application" after={application} />
          </section>
        </div>
        <aside className="stack-wide">
          <Facts application={application} />
          <Usage application={application} />
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
        <Button variant="default" aria-label="More" px={8}>
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
  if (open === 'delete') return <Delete application={application} close={close} />;
  if (open === 'rotate') {
    const done = (secret: string, note: string) => setOpen({ secret, note });
    return <Rotate application={application} keys={keys} close={close} done={done} />;
  }
  if (!open) return null;
  const stored = () => {
    close();
    reload();
  };
  return <KeyOnce secret={open.secret} note={open.note} name={application.name} close={stored} />;
}

function Access({ application: { rules, permissions } }: { application: Application }) {
  const { permissions: known } = useSignedIn();
  const sentences = new Map(known.map(({ name, description }) => [name, description]));
  return (
    <section className="card">
      <h2>Access</h2>
      {rules.length > 0 && (
        <ol className="rules">
          {rules.map((rule, index) => (
            <li key={`${index}-${rule.priority}`}>
              <span className="rule-number" title={`priority ${rule.priority}`}>
                {rule.priority}
              </span>
              <div>
                <p>
                  <code>{ruleTitle(rule)}</code> <Outcome answer={rule.transform} />
                </p>
                <p className="fine">
                  {rule.permissions.join(', ')}
                  {rule.description !== undefined && <> · {rule.description}</>}
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
              <span className="fine">{sentences.get(name) ?? 'One of your own.'}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Facts({ application }: { application: Application }) {
  const now = useNow();
  const { id, created_at: created, created_by: maker } = application;
  const { modified_at: modified, modified_by: modifier, allowed_origins: origins } = application;
  return (
    <section className="card">
      <h2>Facts</h2>
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
        <dd title={exactly(created)}>
          {ago(created, now)} <Maker id={maker} />
        </dd>
        {modified !== undefined && (
          <>
            <dt>Changed</dt>
            <dd title={exactly(modified)}>
              {ago(modified, now)} <Maker id={modifier} />
            </dd>
          </>
        )}
        {origins !== undefined && (
          <>
            <dt>Pages</dt>
            <dd>{origins.join(', ')}</dd>
          </>
        )}
        <dt>Id</dt>
        <dd className="id-line">
          <code>{id}</code> <CopyButton text={id} />
        </dd>
      </dl>
    </section>
  );
}
