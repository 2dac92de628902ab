/** Ends one or more sessions after a confirmation. */
import { useState } from 'react';
import { NotFoundError, type Session } from '../../../sdk/src/sallyport.ts';
import { announce } from '../frame/announce.ts';
import { ConfirmDialog } from '../frame/confirm-dialog.tsx';
import { formatNumber, plural } from '../frame/format.ts';
import { useSignedIn } from '../frame/signed-in.ts';

const concurrency = 4;

interface Props {
  readonly sessions: readonly Session[];
  readonly close: () => void;
  readonly done: () => void;
}

export function EndDialog({ sessions, close, done }: Props) {
  const { api } = useSignedIn();
  const [ended, setEnded] = useState<ReadonlySet<string>>(new Set());
  const many = sessions.length > 1;
  const endOne = async (id: string) => {
    try {
      await api.sessions.end(id);
    } catch (failure) {
      // The session has expired or was ended by someone else.
      if (!(failure instanceof NotFoundError)) throw failure;
    }
    setEnded((old) => new Set(old).add(id));
  };
  const end = async () => {
    const waiting = sessions.map(({ id }) => id).filter((id) => !ended.has(id));
    while (waiting.length > 0) await Promise.all(waiting.splice(0, concurrency).map(endOne));
    announce(many ? `${plural(sessions.length, 'session')} ended.` : 'Session ended.');
    done();
  };
  return (
    <ConfirmDialog
      title={many ? `End ${plural(sessions.length, 'session')}?` : 'End this session?'}
      close={ended.size > 0 ? done : close}
      cancel={ended.size > 0 ? 'Close' : 'Cancel'}
      action={many ? 'End sessions' : 'End session'}
      run={end}
      dangerous
    >
      <p className="quiet">
        {many
          ? 'Their keys are revoked immediately. The pages can create new sessions.'
          : 'Its key is revoked immediately. The page can create a new session.'}
      </p>
      {many && ended.size > 0 && (
        <p className="fine" role="status">
          {formatNumber(ended.size)} of {formatNumber(sessions.length)} ended
        </p>
      )}
    </ConfirmDialog>
  );
}
