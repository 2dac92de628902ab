/** Creates tokens from a file, with the same results as `sallyport tokens import`. Shows nothing of its lines. */
import { Button, Modal } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';
import { InlineError } from '../frame/error-notice.tsx';
import { formatNumber, plural } from '../frame/format.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { download } from '../frame/table-tools.tsx';
import { type Import, importFile, type Refused } from './import-file.ts';

/** Limits the listed lines. The file with refused lines has all. */
const maxListed = 20;

export function ImportDialog({ close }: { close: () => void }) {
  const { api } = useSignedIn();
  const [progress, setProgress] = useState<Import>();
  const [state, setState] = useState<'waiting' | 'running' | 'stopping' | 'stopped' | 'over'>('waiting');
  const [error, setError] = useState<unknown>();
  const stop = useRef(new AbortController());
  useEffect(() => {
    const controller = stop.current;
    return () => controller.abort();
  }, []);
  const start = async (file: File | undefined | null) => {
    if (!file) return;
    setState('running');
    const { signal } = stop.current;
    try {
      await importFile(api, file, signal, setProgress);
      setState('over');
    } catch (failure) {
      if (!signal.aborted) setError(failure);
      setState('stopped');
    }
  };
  const isRunning = state === 'running' || state === 'stopping';
  return (
    <Modal opened onClose={close} title="Import tokens" closeOnClickOutside={!isRunning}>
      <div className="stack">
        {state === 'waiting' ? (
          <Choose start={start} />
        ) : (
          <>
            <progress aria-label="Import" max={1} value={progress?.done ?? 0} />
            {progress && <Results progress={progress} state={state} />}
          </>
        )}
        <InlineError error={error} />
        <div className="foot">
          {isRunning && (
            <Button
              variant="default"
              disabled={state === 'stopping'}
              onClick={() => {
                setState('stopping');
                stop.current.abort();
              }}
            >
              Stop
            </Button>
          )}
          {!isRunning && progress && progress.refused.length > 0 && (
            <Button variant="default" onClick={() => download('rejected.jsonl', fileOf(progress.refused))}>
              Download refused lines
            </Button>
          )}
          {!isRunning && (
            <Button variant="default" onClick={close}>
              Close
            </Button>
          )}
        </div>
      </div>
    </Modal>
  );
}

function Choose({ start }: { start: (file: File | undefined | null) => void }) {
  return (
    <>
      <p className="quiet">
        Each line is a JSON object with the fields of <code>POST /tokens</code>, and an <code>id</code> or{' '}
        <code>unless_exists</code>. Tokens that exist are skipped, so an import can be repeated.
      </p>
      <label
        className="drop-zone"
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault();
          start(event.dataTransfer.files[0]);
        }}
      >
        Drop a file here, or choose one
        <input type="file" onChange={(event) => start(event.currentTarget.files?.[0])} />
      </label>
    </>
  );
}

const heads = {
  running: 'Importing',
  stopping: 'Stopping',
  stopped: 'Stopped',
  over: 'Finished',
  waiting: '',
};

function Results({ progress, state }: { progress: Import; state: keyof typeof heads }) {
  const { read, created, existing, refused } = progress;
  const counts = `${formatNumber(created)} created, ${formatNumber(existing)} existing, ${formatNumber(refused.length)} refused`;
  return (
    <>
      <p role="status">
        {heads[state]}: {plural(read, 'line')} read, {counts}
      </p>
      {refused.length > 0 && (
        <ul className="fine">
          {refused.slice(0, maxListed).map(({ line, code }) => (
            <li key={line}>
              Line {formatNumber(line)}: <code>{code}</code>
            </li>
          ))}
          {refused.length > maxListed && <li>and {formatNumber(refused.length - maxListed)} more</li>}
        </ul>
      )}
    </>
  );
}

function fileOf(refused: readonly Refused[]): Blob {
  return new Blob(
    refused.map(({ text }) => `${text}\n`),
    { type: 'application/jsonl' },
  );
}
