/** Deletes the tokens in a container and below it after a confirmation. */
import { TextInput } from '@mantine/core';
import { useState } from 'react';
import { announce } from '../frame/announce.ts';
import { ConfirmDialog } from '../frame/confirm-dialog.tsx';
import { InlineError } from '../frame/error-notice.tsx';
import { formatNumber, plural } from '../frame/format.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { useTokens } from './query.ts';

export function DeleteDialog({ container, close }: { container: string; close: () => void }) {
  const { api } = useSignedIn();
  const { data, error } = useTokens({ container, type: '', q: '' });
  const [typed, setTyped] = useState('');
  const [deleted, setDeleted] = useState(0);
  const remove = async () => {
    const total = await api.tokens.deleteMany({ container }, { onProgress: setDeleted });
    announce(`${plural(total, 'token')} deleted.`);
    close();
  };
  return (
    <ConfirmDialog
      title={`Delete all tokens in ${container}`}
      close={close}
      cancel={deleted > 0 ? 'Close' : 'Cancel'}
      action="Delete"
      run={remove}
      dangerous
      disabled={typed !== container || !data}
      focus="content"
    >
      <p className="notice notice-bad" role="status">
        {data ? countText(data) : 'Counting…'}
      </p>
      <p className="quiet">
        Every token in {container} and below it that this key may delete is deleted, with its data. The search
        and the type do not matter. This cannot be undone.
      </p>
      <InlineError error={error} />
      <TextInput
        label="Type the container to confirm"
        placeholder={container}
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
        autoComplete="off"
        data-autofocus
      />
      {deleted > 0 && (
        <p className="fine" role="status">
          {formatNumber(deleted)} deleted so far
        </p>
      )}
    </ConfirmDialog>
  );
}

/** The key may delete tokens that it does not see, and see tokens that it may not delete. */
function countText({ tokens, total, more }: NonNullable<ReturnType<typeof useTokens>['data']>): string {
  const count = more ? total : tokens.length;
  const shown = count === undefined ? `At least ${plural(tokens.length, 'token')}` : plural(count, 'token');
  return `${shown} in this container and below, of those that this key can see`;
}
