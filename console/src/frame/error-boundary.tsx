/** Limits the effect of a rendering error, or of code that cannot be loaded, to one page. */
import { Button } from '@mantine/core';
import { Component, type ReactNode, useEffect } from 'react';
import { Icon } from './icons.tsx';
import { type LoadFailure, PageLoadError } from './lazy-page.tsx';
import { useSignedIn } from './signed-in.ts';

const messages: Record<LoadFailure, { title: string; text: string }> = {
  offline: {
    title: 'Connection lost',
    text: 'The service cannot be reached. You are still signed in. The page loads when the connection is back.',
  },
  unavailable: {
    title: 'The service is not available',
    text: 'It answered with an error, for example during a deployment. You are still signed in. Try again in a moment.',
  },
  missing: {
    title: 'A file of the console is missing',
    text: 'The service did not deliver all files of this version. The deployment may be incomplete. You are still signed in.',
  },
  updated: {
    title: 'The console was updated',
    text: 'Reload to get the new version. You stay signed in, and unsaved changes are not lost.',
  },
};

interface State {
  readonly error?: unknown;
}

export class ErrorBoundary extends Component<{ readonly children: ReactNode }, State> {
  override state: State = {};

  static getDerivedStateFromError(error: unknown): State {
    return { error };
  }

  readonly #retry = () => {
    if (this.state.error instanceof PageLoadError) this.state.error.retry();
    this.setState({ error: undefined });
  };

  override render(): ReactNode {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return <PageFailed error={error} retry={this.#retry} />;
  }
}

function PageFailed({ error, retry }: { error: unknown; retry: () => void }) {
  const { reload } = useSignedIn();
  const failure = error instanceof PageLoadError ? error.failure : undefined;
  useEffect(() => {
    if (failure !== 'offline') return;
    addEventListener('online', retry);
    return () => removeEventListener('online', retry);
  }, [failure, retry]);
  const { title, text } = failure
    ? messages[failure]
    : { title: 'This page failed', text: `Reload, or go to another page. Error: ${String(error)}` };
  const reloads = failure === 'updated' || failure === undefined;
  return (
    <div className="page">
      <div className="empty" role="alert">
        <Icon name="warning" size={28} />
        <h2>{title}</h2>
        <p>{text}</p>
        <Button onClick={reloads ? reload : retry}>{reloads ? 'Reload' : 'Try again'}</Button>
      </div>
    </div>
  );
}
