/** Confines a rendering error to one page. */
import { Button } from '@mantine/core';
import { Component, type ReactNode } from 'react';
import { Icon } from './icons.tsx';

interface State {
  readonly error?: unknown;
}

/** A code chunk is missing because the service was upgraded while the page was open. */
function isMissingFile(error: unknown): boolean {
  return error instanceof TypeError && /dynamically imported module|module script/i.test(error.message);
}

export class ErrorBoundary extends Component<{ readonly children: ReactNode }, State> {
  override state: State = {};

  static getDerivedStateFromError(error: unknown): State {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    const missing = isMissingFile(error);
    return (
      <div className="page">
        <div className="empty" role="alert">
          <Icon name="warning" size={28} />
          <h2>{missing ? 'The console was updated' : 'This page failed to load'}</h2>
          <p>
            {missing
              ? 'Reload to get the new version. You need to sign in again.'
              : `Reload, or go to another page. Error: ${String(error)}`}
          </p>
          <Button onClick={() => location.reload()}>Reload</Button>
        </div>
      </div>
    );
  }
}
