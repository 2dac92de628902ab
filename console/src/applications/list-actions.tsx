/** Actions on all applications that the list shows: set a label, quarantine, copy and CSV. */
import { Button, Menu, TextInput } from '@mantine/core';
import { useState } from 'react';
import { type Application, etagOf, type Sallyport } from '../../../sdk/src/sallyport.ts';
import { announce } from '../frame/announce.ts';
import { ConfirmDialog } from '../frame/confirm-dialog.tsx';
import { formatNumber, plural } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { TableTools } from '../frame/table-tools.tsx';
import { summarizeGrants } from './grants-summary.ts';
import { labelsOf } from './labels.ts';

const head = ['Name', 'ID', 'Type', 'Labels', 'Access', 'Last used', 'Expires', 'Created', 'Quarantined'];
const maxNames = 10;

export function ListActions({ rows }: { rows: readonly Application[] }) {
  const signedIn = useSignedIn();
  const [open, setOpen] = useState<'label' | 'quarantine'>();
  const cells = (row: Application) => [
    ...[
      row.name,
      row.id,
      row.type,
      labelsOf(row).join(' '),
      summarizeGrants(row, signedIn.permissions.length),
    ],
    ...[row.last_used_at, row.expires_at, row.created_at, row.quarantined_at].map((time) => time ?? ''),
  ];
  return (
    <div className="list-actions">
      {holds(signedIn, 'application:update') && (
        <Menu position="bottom-start">
          <Menu.Target>
            <Button variant="default" rightSection={<Icon name="down" size={12} />}>
              Change {formatNumber(rows.length)} shown
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item onClick={() => setOpen('label')}>Set a label…</Menu.Item>
            <Menu.Item color="red" onClick={() => setOpen('quarantine')}>
              Quarantine…
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      )}
      <TableTools name="applications" head={head} rows={() => rows.map(cells)} />
      {open && <BulkDialog rows={rows} what={open} close={() => setOpen(undefined)} />}
    </div>
  );
}

/** The label replaces one with the same name. Without a value, the label is removed. */
async function setLabel(api: Sallyport, { id }: Application, text: string): Promise<void> {
  const application = await api.applications.get(id);
  const { permissions, rules } = application;
  const [name = '', ...value] = text.trim().split('=');
  const { [name]: _, ...others } = application.labels ?? {};
  const labels = value.length > 0 ? { ...others, [name]: value.join('=') } : others;
  const body = { name: application.name, permissions, rules, labels };
  await api.applications.update(id, body, { ifMatch: etagOf(application) });
}

interface BulkProps {
  readonly rows: readonly Application[];
  readonly what: 'label' | 'quarantine';
  readonly close: () => void;
}

function BulkDialog({ rows, what, close }: BulkProps) {
  const { api, applications, ownApplication } = useSignedIn();
  const [text, setText] = useState('');
  const [done, setDone] = useState<ReadonlySet<string>>(new Set());
  // The own application cannot release itself.
  const others = what === 'label' ? rows : rows.filter(({ id }) => id !== ownApplication?.id);
  const rest = others.filter(({ id }) => !done.has(id));
  const run = async () => {
    const finished = new Set(done);
    try {
      for (const row of rest) {
        await (what === 'label' ? setLabel(api, row, text) : api.applications.quarantine(row.id));
        setDone(new Set(finished.add(row.id)));
      }
    } finally {
      void applications.load();
    }
    announce(`${plural(finished.size, 'application')} changed.`);
    close();
  };
  return (
    <ConfirmDialog
      title={what === 'label' ? 'Set a label' : `Quarantine ${plural(others.length, 'application')}?`}
      close={close}
      action={what === 'label' ? 'Set label' : 'Quarantine'}
      run={run}
      disabled={rest.length === 0 || (what === 'label' && !/^[^=\s]+/.test(text.trim()))}
      dangerous={what === 'quarantine'}
      focus={what === 'label' ? 'content' : 'cancel'}
    >
      {what === 'label' && (
        <TextInput
          label="Label"
          description="Such as team=payments. A name without = removes the label."
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          data-autofocus
        />
      )}
      <p className="quiet">
        {done.size > 0 && `${formatNumber(done.size)} done. `}
        {plural(rest.length, 'application')}:{' '}
        {rest
          .slice(0, maxNames)
          .map(({ name }) => name)
          .join(', ')}
        {rest.length > maxNames && ` and ${formatNumber(rest.length - maxNames)} more`}
      </p>
      {what === 'quarantine' && (
        <p className="fine">
          They can change nothing, and read tokens without their data, until you release them. The application
          that you are signed in with is left out.
        </p>
      )}
    </ConfirmDialog>
  );
}
